// What the fast kernels share.
//
//   absl::StatusOr<std::unique_ptr<Kernel>> MakeAdd(const KernelSpec& spec, const KernelOptions& options) {
//     return MakeFastKernel(spec, [elements = spec.inputs[0].elements()](const KernelArguments& arguments) { ... });
//   }
//   const bool registered = RegisterKernel("add", KernelKind::kCpu, MakeAdd);
#ifndef REPRISE_RUNTIME_TENSOR_CPU_FAST_KERNEL_H_
#define REPRISE_RUNTIME_TENSOR_CPU_FAST_KERNEL_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/tensor/access.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Elements that are worth waking a thread for.
constexpr int64_t kGrainElements = 16384;

constexpr int64_t GrainRows(int64_t width) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, width));
}

inline bool IsBFloat16(const KernelSpec& spec) { return ComputeType(spec) == DType::kBFloat16; }

// Fast kernels are for float32 and bfloat16; only the reference kernels compute in float64.
inline absl::Status CheckFastType(const KernelSpec& spec) {
  if (ComputeType(spec) != DType::kFloat64) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has no cpu kernel for float64"));
}

template <typename Function>
KernelOr MakeFastKernel(const KernelSpec& spec, Function run, int64_t scratch_bytes = 0) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return MakeFunctionKernel(std::move(run), scratch_bytes);
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_FAST_KERNEL_H_
