#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/elementwise.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/column_sums.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
void AddVectors(const T* a, const T* b, T* sum, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    StoreVector(hn::Add(LoadVector(a + i, lanes), LoadVector(b + i, lanes)), sum + i, lanes);
  });
}

// Elements [begin, end) of a + b; b is repeated every `period` elements, of which `begin` is a multiple.
template <typename T>
void AddOf(const void* a, const void* b, void* sum, int64_t begin, int64_t end, int64_t period) {
  const auto* row = static_cast<const T*>(b);
  for (int64_t i = begin; i < end; i += period) {
    AddVectors(static_cast<const T*>(a) + i, row, static_cast<T*>(sum) + i, std::min(period, end - i));
  }
}

void AddPeriodic(bool bfloat16, const void* a, const void* b, void* sum, int64_t begin, int64_t end, int64_t period) {
  bfloat16 ? AddOf<BFloat16>(a, b, sum, begin, end, period) : AddOf<float>(a, b, sum, begin, end, period);
}

template <typename T>
void ScaleOf(const void* x, void* y, int64_t count, float factor) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v = LoadVector(static_cast<const T*>(x) + i, lanes);
    StoreVector(hn::Mul(v, hn::Set(FloatTag(), factor)), static_cast<T*>(y) + i, lanes);
  });
}

void ScaleVector(bool bfloat16, const void* x, void* y, int64_t count, float factor) {
  bfloat16 ? ScaleOf<BFloat16>(x, y, count, factor) : ScaleOf<float>(x, y, count, factor);
}

template <typename T>
void SumRowsOf(const void* x, float* sums, int64_t rows, int64_t width) {
  const auto* row = static_cast<const T*>(x);
  std::fill_n(sums, width, 0.0F);
  for (int64_t r = 0; r < rows; ++r, row += width) {
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      StoreVector(hn::Add(LoadVector(sums + i, lanes), LoadVector(row + i, lanes)), sums + i, lanes);
    });
  }
}

void SumRows(bool bfloat16, const void* x, float* sums, int64_t rows, int64_t width) {
  bfloat16 ? SumRowsOf<BFloat16>(x, sums, rows, width) : SumRowsOf<float>(x, sums, rows, width);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(AddPeriodic);
HWY_EXPORT(ScaleVector);
HWY_EXPORT(SumRows);

KernelOr MakeAdd(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t elements = spec.inputs[0].elements();
  return MakeFastKernel(
      spec, [elements, bfloat16 = IsBFloat16(spec), threads = options.threads](const KernelArguments& arguments) {
        auto* sum = arguments.outputs[0];
        if (sum == nullptr) return;
        const auto* a = arguments.inputs[0];
        const auto* b = arguments.inputs[1];
        const int64_t size = bfloat16 ? 2 : 4;
        ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
          const int64_t offset = begin * size;
          HWY_DYNAMIC_DISPATCH(AddPeriodic)
          (bfloat16, a + offset, b + offset, sum + offset, 0, end - begin, end - begin);
        });
      });
}

KernelOr MakeScale(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t elements = spec.inputs[0].elements();
  const auto factor = static_cast<float>(spec.attributes.Real("factor"));
  return MakeFastKernel(spec, [elements, factor, bfloat16 = IsBFloat16(spec),
                               threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    const int64_t size = bfloat16 ? 2 : 4;
    ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(ScaleVector)
      (bfloat16, arguments.inputs[0] + begin * size, arguments.outputs[0] + begin * size, end - begin, factor);
    });
  });
}

KernelOr MakeBiasAdd(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  return MakeFastKernel(
      spec, [rows, width, bfloat16 = IsBFloat16(spec), threads = options.threads](const KernelArguments& arguments) {
        if (arguments.outputs[0] == nullptr) return;
        ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(AddPeriodic)
          (bfloat16, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0], begin * width, end * width, width);
        });
      });
}

KernelOr MakeBiasGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool bfloat16 = IsBFloat16(spec);
  const auto run = [sums, width, bfloat16, threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    ParallelFor(threads, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = sums.FirstRow(chunk);
        HWY_DYNAMIC_DISPATCH(SumRows)
        (bfloat16, arguments.inputs[0] + first * width * (bfloat16 ? 2 : 4), sums.Partial(arguments.scratch, chunk),
         sums.FirstRow(chunk + 1) - first, width);
      }
    });
    sums.Combine(threads, arguments.scratch, Output<float>(arguments, 0), Accumulates(arguments, 0));
  };
  return MakeFastKernel(spec, run, sums.scratch_bytes());
}

KernelOr MakeCopy(const KernelSpec& spec, const KernelOptions& options) {
  constexpr int64_t kGrainBytes = int64_t{1} << 18;
  return MakeFunctionKernel([bytes = spec.inputs[0].bytes(), threads = options.threads](const KernelArguments& a) {
    if (a.outputs[0] == nullptr) return;
    ParallelFor(threads, bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(a.outputs[0] + begin, a.inputs[0] + begin, static_cast<size_t>(end - begin));
    });
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("add", KernelKind::kCpu, MakeAdd) &&
                                         RegisterKernel("scale", KernelKind::kCpu, MakeScale) &&
                                         RegisterKernel("bias_add", KernelKind::kCpu, MakeBiasAdd) &&
                                         RegisterKernel("bias_gradient", KernelKind::kCpu, MakeBiasGradient) &&
                                         RegisterKernel("copy", KernelKind::kCpu, MakeCopy);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
