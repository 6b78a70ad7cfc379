// The device `cuda`: a CUDA stream for each of ours, events, one arena of device memory.
//
//   ASSIGN_OR_RETURN(auto device, MakeCudaDevice({.device = communicator->local_rank(), .arena_bytes = bytes}));
//
// A Work's `run` is called by the issuing thread, inside Enqueue, with the stream as CurrentStream(): it starts
// kernels, copies and collectives there and returns. A Work whose completion is to hold its stream puts what waits onto
// the stream itself; Synchronize waits for the completion as well. `done` is called by CUDA in the stream's turn and
// must not call CUDA. Gathers and transfers have streams of higher priority than compute, so that they start at once.
// Errors name the call and the stream. Statistics are zero: what a stream waited for shows in a trace of its events.
#ifndef REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_
#define REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace reprise::cuda {

// The arena is taken in steps of this: CUDA's own granularity for large blocks.
inline constexpr int64_t kArenaStep = int64_t{2} << 20;

struct CudaDeviceOptions {
  int device = 0;  // of this node's
  int64_t arena_bytes = 0;
  double deadline_seconds = 300;  // the longest that Synchronize waits
};

// InvalidArgument where there is no such device, or no driver; ResourceExhausted, with what is free, where the arena
// cannot be had.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options);

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_CUDA_DEVICE_H_
