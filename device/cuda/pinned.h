// Page-locked memory of the host, and copies between it and the device on the current stream (current_stream.h).
//
//   ASSIGN_OR_RETURN(PinnedMemory memory, TakePinned(bytes, "lower --host_budget"));
//   RETURN_IF_ERROR(Call(StartCopy(memory.get(), boundary, bytes), "start a copy"));
#ifndef REPRISE_DEVICE_CUDA_PINNED_H_
#define REPRISE_DEVICE_CUDA_PINNED_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/cuda/handles.h"

namespace reprise::cuda {

// Nothing where `bytes` is 0. ResourceExhausted, with `instead` as one of the mends, where the system gives no more.
absl::StatusOr<PinnedMemory> TakePinned(int64_t bytes, const char* instead);

// Whichever side is the device's; the bytes have moved in the order of the current stream.
cudaError_t StartCopy(void* to, const void* from, int64_t bytes);

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_PINNED_H_
