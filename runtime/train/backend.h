// Backend: a kind of device with all that goes with it: its kernels, its memory on the host, the collectives that reach
// its memory. `cpu` is always there; `cuda` is libreprise_cuda.so, opened when it is first asked for, so that programs
// start, and start quickly, on machines without CUDA's libraries.
//
//   ASSIGN_OR_RETURN(const Backend* backend, FindBackend("cuda"));
//   RETURN_IF_ERROR(backend->Check());                                    // a driver and a device are there
//   RETURN_IF_ERROR(backend->Select(communicator));                       // this rank's device
//   ASSIGN_OR_RETURN(auto device, backend->MakeDevice(communicator, {.arena_bytes = bytes}));
//
// Backends are registered once and live as long as the program.
#ifndef REPRISE_RUNTIME_TRAIN_BACKEND_H_
#define REPRISE_RUNTIME_TRAIN_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "device/device.h"
#include "offload/host_store.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

class Backend {
 public:
  virtual ~Backend() = default;

  // OK where this machine has a device that can be used; else InvalidArgument, in one sentence.
  virtual absl::Status Check() const = 0;

  // Makes this rank's device the one of this thread; ranks of a host take its devices in turn. Before the rank's
  // kernels are made, some of which keep tables there.
  virtual absl::Status Select(const Communicator& ranks) const = 0;

  // What times of kernels are kept under: the name of the processor or GPU.
  virtual std::string DeviceName() const = 0;

  virtual KernelKind kernels() const = 0;

  // The device of this rank, as Select. Not collective. `options`: what a kind of device
  // has no use for is ignored, such as threads by a GPU. Errors as of MakeCpuDevice.
  virtual absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Communicator& ranks,
                                                             const CpuDeviceOptions& options) const = 0;

  // Memory of the host to and from which the device copies at full speed. ResourceExhausted where it can't be had.
  virtual absl::StatusOr<std::unique_ptr<HostStore>> MakeHostStore(int64_t bytes) const = 0;

  // Collectives on the memory of the ranks' devices. Null: `ranks` itself serves. Collective; both must outlive it.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(Communicator& ranks, Device& device,
                                                                         const CommunicatorOptions& options) const = 0;

  // Whether a step of these ranks can be started as a whole (Device::BeginCapture). Collective. InvalidArgument, in one
  // sentence, where it can't.
  virtual absl::Status CheckCapture(Communicator& ranks) const = 0;
};

// At namespace scope of a backend's source file. Returns true.
bool RegisterBackend(const std::string& name, std::unique_ptr<const Backend> backend);

// "cpu" or "cuda". InvalidArgument, naming the mend, where there is no such backend or its library does not open;
// REPRISE_CUDA_LIBRARY in the environment names another file than the one beside this library.
absl::StatusOr<const Backend*> FindBackend(const std::string& name);

// What `auto` means on this machine: "cuda" where a driver, the library and a device are there, else "cpu".
std::string ChooseDevice();

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_BACKEND_H_
