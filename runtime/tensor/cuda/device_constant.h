// Numbers that a kernel makes once and the device reads in every run: a copy of them in its memory, beside the arena.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const float> cosines, MakeDeviceConstant<float>(table.cosine));
//   Launch(..., cosines.get());               // aligned to 256 bytes; freed with its last owner
//
// Complete when MakeDeviceConstant returns, for every stream. ResourceExhausted where the device has no memory left.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace reprise::cuda {

#ifdef __CUDACC__

template <typename T>
absl::StatusOr<std::shared_ptr<const T>> MakeDeviceConstant(absl::Span<const T> values) {
  const size_t bytes = std::max<size_t>(values.size() * sizeof(T), 1);
  void* place = nullptr;
  cudaError_t error = cudaMalloc(&place, bytes);
  if (error != cudaSuccess) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cudaMalloc of ", bytes, " bytes for constants of a kernel: ", cudaGetErrorString(error)));
  }
  std::shared_ptr<const T> constant(static_cast<const T*>(place), [place](const T*) { cudaFree(place); });
  error = cudaMemcpy(place, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  // A copy from pageable memory may still be on its way, and the streams of a device do not wait for the default one.
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  if (error != cudaSuccess) {
    return absl::InternalError(absl::StrCat("copying constants of a kernel: ", cudaGetErrorString(error)));
  }
  return constant;
}

#else

template <typename T>
absl::StatusOr<std::shared_ptr<const T>> MakeDeviceConstant(absl::Span<const T> values) {
  constexpr std::align_val_t kAlignment{256};
  void* place = ::operator new(std::max<size_t>(values.size() * sizeof(T), 1), kAlignment);
  if (!values.empty()) std::memcpy(place, values.data(), values.size() * sizeof(T));
  return std::shared_ptr<const T>(static_cast<const T*>(place), [](const T* constant) {
    ::operator delete (const_cast<T*>(constant), std::align_val_t{256});
  });
}

#endif

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_
