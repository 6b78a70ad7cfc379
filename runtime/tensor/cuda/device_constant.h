// Numbers that a kernel makes once and the device reads in every run: a copy of them in its memory, beside the arena.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const float> cosines, MakeDeviceConstant<float>(table.cosine));
//   Launch(..., cosines.get());               // aligned to 256 bytes; freed with its last owner
//
// Complete when MakeDeviceConstant returns, for every stream. ResourceExhausted where the device has no memory left.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "device/cuda/handles.h"

namespace reprise::cuda {

template <typename T>
absl::StatusOr<std::shared_ptr<const T>> MakeDeviceConstant(absl::Span<const T> values) {
  const size_t bytes = values.size() * sizeof(T);
  auto memory = std::make_shared<DeviceMemory>();
  const cudaError_t error = cudaMalloc(memory->place(), std::max<size_t>(bytes, 1));
  if (error != cudaSuccess) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cudaMalloc of ", bytes, " bytes for constants of a kernel: ", cudaGetErrorString(error)));
  }
  if (bytes > 0) {
    RETURN_IF_ERROR(Call(cudaMemcpy(memory->get(), values.data(), bytes, cudaMemcpyHostToDevice),
                         "copy the constants of a kernel"));
  }
  // A copy from pageable memory may still be on its way, and the streams of a device do not wait for the default one.
  RETURN_IF_ERROR(Call(cudaStreamSynchronize(nullptr), "copy the constants of a kernel"));
  const auto* first = static_cast<const T*>(memory->get());
  return std::shared_ptr<const T>(std::move(memory), first);
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_DEVICE_CONSTANT_H_
