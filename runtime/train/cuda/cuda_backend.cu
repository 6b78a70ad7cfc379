// The backend `cuda`: what libreprise_cuda.so registers when it is opened.
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "collectives/staged/staged_communicator.h"
#include "device/cuda/cuda_device.h"
#include "offload/cuda/pinned_pool.h"
#include "runtime/train/backend.h"

namespace reprise::cuda {
namespace {

class CudaBackend : public Backend {
 public:
  absl::Status Check() const override { return DeviceCount().status(); }

  std::string DeviceName() const override { return DescribeDevice(0).value_or("cuda"); }

  KernelKind kernels() const override { return KernelKind::kCuda; }

  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Communicator& ranks,
                                                     const CpuDeviceOptions& options) const override {
    ASSIGN_OR_RETURN(const int devices, DeviceCount());
    return MakeCudaDevice({.device = ranks.local_rank() % devices,
                           .arena_bytes = options.arena_bytes,
                           .deadline_seconds = options.deadline_seconds});
  }

  absl::StatusOr<std::unique_ptr<HostStore>> MakeHostStore(int64_t bytes) const override {
    return MakePinnedPool(bytes);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(Communicator& ranks, Device& /*device*/,
                                                                 const CommunicatorOptions& /*options*/) const override {
    return MakeStagedCommunicator(ranks, {});
  }
};

[[maybe_unused]] const bool registered = RegisterBackend("cuda", std::make_unique<CudaBackend>());

}  // namespace
}  // namespace reprise::cuda
