#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/pinned.h"

namespace reprise::cuda {

absl::StatusOr<PinnedMemory> TakePinned(int64_t bytes, const char* instead) {
  PinnedMemory memory;
  if (bytes == 0) return memory;
  const cudaError_t error = cudaHostAlloc(memory.place(), static_cast<size_t>(bytes), cudaHostAllocDefault);
  if (error != cudaErrorMemoryAllocation) {
    RETURN_IF_ERROR(Call(error, absl::StrCat("take ", bytes, " bytes of page-locked memory")));
    return memory;
  }
  static_cast<void>(cudaGetLastError());  // the next work would find it
  return absl::ResourceExhaustedError(absl::StrCat("the system gives no ", bytes, " bytes (", FormatBytes(bytes),
                                                   ") of page-locked memory; ", instead,
                                                   ", or raise the limit of locked memory (ulimit -l)"));
}

cudaError_t StartCopy(void* to, const void* from, int64_t bytes) {
  return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                         static_cast<cudaStream_t>(CurrentStream()));
}

}  // namespace reprise::cuda
