// PinnedPool: the HostStore of the `cuda` device: one block of page-locked memory, to and from which copies run beside
// kernels.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<HostStore> pool, MakePinnedPool(plan.host_bytes));
//   RETURN_IF_ERROR(pool->Write(offset, {boundary, bytes}));     // inside a Work: starts a copy on its stream
//
// Taken once, to a multiple of 4096 bytes and no further. Write and Read start a copy on the current stream of the
// thread (device/cuda/current_stream.h): the bytes have been taken or given in that stream's order, not at the return.
#ifndef REPRISE_OFFLOAD_CUDA_PINNED_POOL_H_
#define REPRISE_OFFLOAD_CUDA_PINNED_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "offload/host_store.h"

namespace reprise::cuda {

// ResourceExhausted where the system gives no more page-locked memory.
absl::StatusOr<std::unique_ptr<HostStore>> MakePinnedPool(int64_t bytes);

}  // namespace reprise::cuda

#endif  // REPRISE_OFFLOAD_CUDA_PINNED_POOL_H_
