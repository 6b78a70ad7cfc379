#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/update.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/update.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

void AdamW(const AdamWTask& task, int64_t begin, int64_t end) {
  const auto set = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
  const FloatVector scale = set(task.gradient_scale);
  const FloatVector beta1 = set(task.beta1);
  const FloatVector beta2 = set(task.beta2);
  const FloatVector rest1 = set(task.rest1);
  const FloatVector rest2 = set(task.rest2);
  const FloatVector correction = set(task.correction);
  ForEachVector(end - begin, [&](int64_t offset, auto lanes) HWY_ATTR {
    const int64_t i = begin + offset;
    const FloatVector g = hn::Mul(LoadVector(task.g + i, lanes), scale);
    const FloatVector m = hn::MulAdd(beta1, LoadVector(task.m + i, lanes), hn::Mul(rest1, g));
    const FloatVector v = hn::MulAdd(beta2, LoadVector(task.v + i, lanes), hn::Mul(hn::Mul(rest2, g), g));
    const FloatVector divisor = hn::Add(hn::Sqrt(hn::Mul(v, correction)), set(task.epsilon));
    const FloatVector step = hn::Div(hn::Mul(set(task.step_size), m), divisor);
    const FloatVector p = hn::MulSub(LoadVector(task.p + i, lanes), set(task.decay), step);
    StoreVector(m, task.m + i, lanes);
    StoreVector(v, task.v + i, lanes);
    StoreVector(p, task.p + i, lanes);
  });
}

void Sgd(const SgdTask& task, int64_t begin, int64_t end) {
  ForEachVector(end - begin, [&](int64_t offset, auto lanes) HWY_ATTR {
    const int64_t i = begin + offset;
    const FloatVector p = LoadVector(task.p + i, lanes);
    const FloatVector g = hn::Mul(LoadVector(task.g + i, lanes), hn::Set(kFloats, task.gradient_scale));
    const FloatVector direction = hn::MulAdd(hn::Set(kFloats, task.weight_decay), p, g);
    StoreVector(hn::NegMulAdd(hn::Set(kFloats, task.rate), direction, p), task.p + i, lanes);
  });
}

// Sixteen sums side by side whatever the length of vectors, so that all machines add in the same order: a product of
// two float32 is exact in float64, and so fused or not makes no difference.
double ChunkSquares(const float* x, int64_t count) {
  constexpr int64_t kSums = 16;
  const hn::ScalableTag<double> doubles;
  const hn::Rebind<float, decltype(doubles)> floats;
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<double>());
  HWY_ALIGN double sums[kSums] = {};
  int64_t i = 0;
  hn::Vec<decltype(doubles)> vectors[kSums / kLanes];
  for (auto& v : vectors) v = hn::Zero(doubles);
  for (; i + kSums <= count; i += kSums) {
    for (int64_t k = 0; k < kSums / kLanes; ++k) {
      const auto v = hn::PromoteTo(doubles, hn::LoadU(floats, x + i + k * kLanes));
      vectors[k] = hn::MulAdd(v, v, vectors[k]);
    }
  }
  for (int64_t k = 0; k < kSums / kLanes; ++k) hn::Store(vectors[k], doubles, sums + k * kLanes);
  for (int64_t k = 0; i + k < count; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (int64_t half = kSums / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  return sums[0];
}

template <typename X, typename Y>
void CastOf(const void* x, void* y, int64_t begin, int64_t end) {
  ForEachVector(end - begin, [&](int64_t offset, auto lanes) HWY_ATTR {
    const int64_t i = begin + offset;
    StoreVector(LoadVector(static_cast<const X*>(x) + i, lanes), static_cast<Y*>(y) + i, lanes);
  });
}

void Cast(bool to_bfloat16, const void* x, void* y, int64_t begin, int64_t end) {
  to_bfloat16 ? CastOf<float, BFloat16>(x, y, begin, end) : CastOf<BFloat16, float>(x, y, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(AdamW);
HWY_EXPORT(Sgd);
HWY_EXPORT(ChunkSquares);
HWY_EXPORT(Cast);

constexpr int64_t kChunk = 4096;       // of squared_sum
constexpr int64_t kCopyGrain = 65536;  // elements of what only moves bytes

absl::Status CheckFloat32(const KernelSpec& spec) {
  if (ComputeType(spec) == DType::kFloat32) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has a cpu kernel for float32 only"));
}

KernelOr MakeAdamW(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFloat32(spec));
  const auto run = [elements = spec.inputs[0].elements(), attributes = spec.attributes,
                    threads = options.threads](const KernelArguments& arguments) {
    if (arguments.step->updates == 0) return;
    const AdamWTask task(attributes, arguments);
    ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(AdamW)(task, begin, end);
    });
  };
  return MakeFunctionKernel(run);
}

KernelOr MakeSgd(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFloat32(spec));
  const auto run = [elements = spec.inputs[0].elements(),
                    weight_decay = static_cast<float>(spec.attributes.Real("weight_decay")),
                    threads = options.threads](const KernelArguments& arguments) {
    if (arguments.step->updates == 0) return;
    const SgdTask task{.g = Input<float>(arguments, 0),
                       .p = Output<float>(arguments, 0),
                       .rate = static_cast<float>(arguments.step->learning_rate),
                       .gradient_scale = static_cast<float>(arguments.step->gradient_scale),
                       .weight_decay = weight_decay};
    ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(Sgd)(task, begin, end);
    });
  };
  return MakeFunctionKernel(run);
}

KernelOr MakeSquaredSum(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFloat32(spec));
  const int64_t elements = spec.inputs[0].elements();
  const int64_t chunks = (elements + kChunk - 1) / kChunk;
  const auto run = [elements, chunks, threads = options.threads](const KernelArguments& arguments) {
    auto* result = Output<double>(arguments, 0);
    if (result == nullptr) return;
    const auto* x = Input<float>(arguments, 0);
    auto* sums = reinterpret_cast<double*>(arguments.scratch);
    ParallelFor(threads, chunks, kGrainElements / kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * kChunk;
        sums[chunk] = HWY_DYNAMIC_DISPATCH(ChunkSquares)(x + first, std::min(kChunk, elements - first));
      }
    });
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk];
    Put(result[0], sum, Accumulates(arguments, 0));
  };
  return MakeFunctionKernel(run, chunks * static_cast<int64_t>(sizeof(double)));
}

KernelOr MakeCast(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  const DType to = spec.outputs[0].dtype;
  if (to != DType::kFloat32 && to != DType::kBFloat16) {
    return absl::UnimplementedError(absl::StrCat("operation cast has no cpu kernel to ", DTypeName(to)));
  }
  const auto run = [elements = spec.inputs[0].elements(), same = spec.inputs[0].dtype == to, size = SizeOf(to), to,
                    threads = options.threads](const KernelArguments& arguments) {
    const std::byte* x = arguments.inputs[0];
    std::byte* y = arguments.outputs[0];
    if (y == nullptr) return;
    ParallelFor(threads, elements, kCopyGrain, [&](int64_t begin, int64_t end) {
      if (same) {
        std::memcpy(y + begin * size, x + begin * size, static_cast<size_t>((end - begin) * size));
      } else {
        HWY_DYNAMIC_DISPATCH(Cast)(to == DType::kBFloat16, x, y, begin, end);
      }
    });
  };
  return MakeFunctionKernel(run);
}

KernelOr MakeFillZero(const KernelSpec& spec, const KernelOptions& options) {
  return MakeFunctionKernel([bytes = spec.outputs[0].bytes(), threads = options.threads](const KernelArguments& a) {
    if (a.outputs[0] == nullptr) return;
    ParallelFor(threads, bytes, 4 * kCopyGrain, [&](int64_t begin, int64_t end) {
      std::memset(a.outputs[0] + begin, 0, static_cast<size_t>(end - begin));
    });
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("adamw", KernelKind::kCpu, MakeAdamW) && RegisterKernel("sgd", KernelKind::kCpu, MakeSgd) &&
    RegisterKernel("squared_sum", KernelKind::kCpu, MakeSquaredSum) &&
    RegisterKernel("cast", KernelKind::kCpu, MakeCast) && RegisterKernel("fill_zero", KernelKind::kCpu, MakeFillZero);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
