// What the factories of CUDA kernels share.
//
//   KernelOr MakeAdd(const KernelSpec& spec, const KernelOptions&) {
//     return MakeCudaKernel(spec, [elements = spec.inputs[0].elements()](const KernelArguments& arguments) {
//       Launch({.blocks = BlocksFor(elements)}, Add, ...);
//     });
//   }
//   const bool registered = RegisterKernel("add", KernelKind::kCuda, MakeAdd);
//
// Run only starts work. What it reads of the host, it reads at once; StepValues are read by the kernels themselves when
// their turn comes, so `arguments.step` points to memory that the device reads too.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_CUDA_KERNEL_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_CUDA_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "device/cuda/launch.h"
#include "device/cuda/threads.h"
#include "runtime/tensor/access.h"
#include "runtime/tensor/kernel.h"

namespace reprise::cuda {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

inline constexpr int kThreads = 256;

// Whole warps, enough for `items` of a row's work, at most kThreads.
constexpr int ThreadsFor(int64_t items) {
  return static_cast<int>(std::clamp<int64_t>((items + kWarp - 1) / kWarp * kWarp, kWarp, kThreads));
}

// Blocks of kThreads threads with one item each.
constexpr int64_t BlocksFor(int64_t items) { return (items + kThreads - 1) / kThreads; }

// The item of this thread among blocks of one dimension.
REPRISE_ON_DEVICE int64_t ThisItem() { return BlockX() * Threads() + Thread(); }

// CUDA kernels are for float32 and bfloat16, as the fast CPU ones.
template <typename Function>
KernelOr MakeCudaKernel(const KernelSpec& spec, Function run, int64_t scratch_bytes = 0) {
  if (ComputeType(spec) == DType::kFloat64) {
    return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has no cuda kernel for float64"));
  }
  return MakeFunctionKernel(std::move(run), scratch_bytes);
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_CUDA_KERNEL_H_
