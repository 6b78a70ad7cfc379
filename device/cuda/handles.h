// Owners of what CUDA's runtime hands out, and its errors as sentences.
//
//   StreamHandle stream;
//   RETURN_IF_ERROR(Call(cudaStreamCreateWithPriority(stream.place(), cudaStreamNonBlocking, 0), "create a stream"));
#ifndef REPRISE_DEVICE_CUDA_HANDLES_H_
#define REPRISE_DEVICE_CUDA_HANDLES_H_

#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace reprise::cuda {

// Internal, with the action and CUDA's name for what went wrong.
inline absl::Status Call(cudaError_t error, const std::string& action) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("CUDA could not ", action, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

// A pointer that `release` gives back. Nobody can act on a release that fails.
template <typename Pointer, cudaError_t (*release)(Pointer)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Handle() {
    if (pointer_ != nullptr) static_cast<void>(release(pointer_));
  }

  Pointer get() const { return pointer_; }
  Pointer* place() { return &pointer_; }  // for CUDA to fill an empty handle

 private:
  Pointer pointer_ = nullptr;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_HANDLES_H_
