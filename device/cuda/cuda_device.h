// The device `cuda`: a CUDA stream for each of ours, events, one arena of device memory.
//
//   ASSIGN_OR_RETURN(auto device, MakeCudaDevice({.device = communicator->local_rank(), .arena_bytes = bytes}));
//
// A Work's `run` is called by the issuing thread, inside Enqueue, with the stream as CurrentStream(): it starts
// kernels, copies and collectives there and returns. A Work whose completion is to hold its stream puts what waits onto
// the stream itself; Synchronize waits for the completion as well. `done` is called by CUDA in the stream's turn and
// must not call CUDA. Gathers and transfers have streams of higher priority than compute, so that they start at once.
// Errors name the call, the stream and the work. Times of works and statistics come from CUDA's events.
#ifndef REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_
#define REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace reprise::cuda {

// The arena is taken in steps of this: CUDA's own granularity for large blocks.
inline constexpr int64_t kArenaStep = int64_t{2} << 20;

// Devices of this node that can be used. InvalidArgument where there is none, or no driver.
absl::StatusOr<int> DeviceCount();

// "cuda, NVIDIA H200, sm_90".
absl::StatusOr<std::string> DescribeDevice(int device);

// Of this thread, for all calls of CUDA that follow.
absl::Status UseDevice(int device);

class CudaDevice : public Device {
 public:
  // Asked now and then while Synchronize waits, such as whether a collective has failed: an error ends the step. Null:
  // nobody is asked.
  virtual void SetMonitor(std::function<absl::Status()> monitor) = 0;
};

struct CudaDeviceOptions {
  int device = 0;  // of this node's, below DeviceCount()
  int64_t arena_bytes = 0;
  double deadline_seconds = 300;  // the longest that Synchronize waits
};

// InvalidArgument where there is no such device, or no driver; ResourceExhausted, with what is free, where the arena
// cannot be had.
absl::StatusOr<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options);

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_
