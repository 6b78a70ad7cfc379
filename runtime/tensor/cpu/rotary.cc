#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/rotary.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"
#include "runtime/tensor/rotary_table.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

// All heads of one row; cosine and sine are the position's.
template <typename T>
void RotateRow(const T* x, const float* cosine, const float* sine, bool inverse, int64_t heads, int64_t half, T* y) {
  for (int64_t head = 0; head < heads; ++head, x += 2 * half, y += 2 * half) {
    ForEachVector(half, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector first = LoadVector(x + i, lanes);
      const FloatVector second = LoadVector(x + half + i, lanes);
      const FloatVector c = LoadVector(cosine + i, lanes);
      const FloatVector table_sine = LoadVector(sine + i, lanes);
      const FloatVector s = inverse ? hn::Neg(table_sine) : table_sine;
      StoreVector(hn::Sub(hn::Mul(first, c), hn::Mul(second, s)), y + i, lanes);
      StoreVector(hn::Add(hn::Mul(second, c), hn::Mul(first, s)), y + half + i, lanes);
    });
  }
}

template <typename T>
void RotateRowsOf(const RotaryTable& table, const void* x, const int32_t* positions, bool inverse, int64_t heads,
                  int64_t begin, int64_t end, void* y) {
  const int64_t width = heads * 2 * table.half;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t offset = RotaryPosition(positions, row, table.length) * table.half;
    RotateRow(static_cast<const T*>(x) + row * width, table.cosine.data() + offset, table.sine.data() + offset, inverse,
              heads, table.half, static_cast<T*>(y) + row * width);
  }
}

void RotateRows(bool bfloat16, const RotaryTable& table, const void* x, const int32_t* positions, bool inverse,
                int64_t heads, int64_t begin, int64_t end, void* y) {
  (bfloat16 ? RotateRowsOf<BFloat16> : RotateRowsOf<float>)(table, x, positions, inverse, heads, begin, end, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(RotateRows);

KernelOr MakeRotary(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const int64_t heads = spec.attributes.Int("heads");
  const bool inverse = spec.attributes.Int("inverse") != 0;
  const bool given = spec.inputs.size() > 1;
  return MakeFastKernel(
      spec, [rows, width, heads, inverse, given, bfloat16 = IsBFloat16(spec), threads = options.threads,
             table = SharedRotaryTable(spec)](const KernelArguments& arguments) {
        if (arguments.outputs[0] == nullptr) return;
        const auto* positions = given ? Input<int32_t>(arguments, 1) : nullptr;
        ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(RotateRows)
          (bfloat16, *table, arguments.inputs[0], positions, inverse, heads, begin, end, arguments.outputs[0]);
        });
      });
}

[[maybe_unused]] const bool registered = RegisterKernel("rotary", KernelKind::kCpu, MakeRotary);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
