#include <algorithm>
#include <string>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/activation.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/column_sums.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/gelu-inl.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename Form, typename T>
void GeluRowOf(const T* x, const T* bias, T* g, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v = LoadVector(x + i, lanes);
    StoreVector(Form::Value(bias == nullptr ? v : hn::Add(v, LoadVector(bias + i, lanes))), g + i, lanes);
  });
}

// Rows of `width` elements; `bias` may be null.
template <typename Form, typename T>
void GeluRowsOf(const void* x, const void* bias, void* g, int64_t first, int64_t last, int64_t width) {
  for (int64_t row = first; row < last; ++row) {
    GeluRowOf<Form>(static_cast<const T*>(x) + row * width, static_cast<const T*>(bias),
                    static_cast<T*>(g) + row * width, width);
  }
}

using RowsFunction = void (*)(const void* x, const void* bias, void* g, int64_t first, int64_t last, int64_t width);

template <typename Form>
RowsFunction RowsOf(bool bfloat16) {
  return bfloat16 ? GeluRowsOf<Form, BFloat16> : GeluRowsOf<Form, float>;
}

void GeluRows(bool erf, bool bfloat16, const void* x, const void* bias, void* g, int64_t first, int64_t last,
              int64_t width) {
  (erf ? RowsOf<ErfForm>(bfloat16) : RowsOf<TanhForm>(bfloat16))(x, bias, g, first, last, width);
}

// dx = dg * slope, and its sums; `bias`, `dx` and `sums` may be null.
template <typename Form, typename T>
void GradientRowOf(const T* x, const T* bias, const T* dg, T* dx, float* sums, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    FloatVector v = LoadVector(x + i, lanes);
    if (bias != nullptr) v = hn::Add(v, LoadVector(bias + i, lanes));
    const FloatVector d = hn::Mul(LoadVector(dg + i, lanes), Form::Slope(v));
    if (dx != nullptr) StoreVector(d, dx + i, lanes);
    if (sums != nullptr) StoreVector(hn::Add(LoadVector(sums + i, lanes), d), sums + i, lanes);
  });
}

template <typename Form, typename T>
void GradientRowsOf(const void* x, const void* bias, const void* dg, void* dx, float* sums, int64_t first, int64_t last,
                    int64_t width) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t offset = row * width;
    GradientRowOf<Form>(static_cast<const T*>(x) + offset, static_cast<const T*>(bias),
                        static_cast<const T*>(dg) + offset, dx == nullptr ? nullptr : static_cast<T*>(dx) + offset,
                        sums, width);
  }
}

using GradientFunction = void (*)(const void* x, const void* bias, const void* dg, void* dx, float* sums, int64_t first,
                                  int64_t last, int64_t width);

template <typename Form>
GradientFunction GradientOf(bool bfloat16) {
  return bfloat16 ? GradientRowsOf<Form, BFloat16> : GradientRowsOf<Form, float>;
}

void GradientRows(bool erf, bool bfloat16, const void* x, const void* bias, const void* dg, void* dx, float* sums,
                  int64_t first, int64_t last, int64_t width) {
  (erf ? GradientOf<ErfForm>(bfloat16) : GradientOf<TanhForm>(bfloat16))(x, bias, dg, dx, sums, first, last, width);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(GeluRows);
HWY_EXPORT(GradientRows);

// gelu and bias_gelu; with `erf` the exact form.
template <bool erf>
KernelOr MakeGelu(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const bool biased = spec.inputs.size() > 1;
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec,
                        [rows, width, biased, bfloat16, threads = options.threads](const KernelArguments& arguments) {
                          if (arguments.outputs[0] == nullptr) return;
                          ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
                            HWY_DYNAMIC_DISPATCH(GeluRows)
                            (erf, bfloat16, arguments.inputs[0], biased ? arguments.inputs[1] : nullptr,
                             arguments.outputs[0], begin, end, width);
                          });
                        });
}

template <bool erf>
KernelOr MakeGeluGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec, [rows, width, bfloat16, threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(GradientRows)
      (erf, bfloat16, arguments.inputs[0], nullptr, arguments.inputs[1], arguments.outputs[0], nullptr, begin, end,
       width);
    });
  });
}

template <bool erf>
KernelOr MakeBiasGeluGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool bfloat16 = IsBFloat16(spec);
  const auto run = [sums, width, bfloat16, threads = options.threads](const KernelArguments& arguments) {
    auto* db = Output<float>(arguments, 1);
    ParallelFor(threads, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        float* partial = db == nullptr ? nullptr : sums.Partial(arguments.scratch, chunk);
        if (partial != nullptr) std::fill_n(partial, width, 0.0F);
        HWY_DYNAMIC_DISPATCH(GradientRows)
        (erf, bfloat16, arguments.inputs[0], arguments.inputs[1], arguments.inputs[2], arguments.outputs[0], partial,
         sums.FirstRow(chunk), sums.FirstRow(chunk + 1), width);
      }
    });
    if (db != nullptr) sums.Combine(threads, arguments.scratch, db, Accumulates(arguments, 1));
  };
  return MakeFastKernel(spec, run, sums.scratch_bytes());
}

template <bool erf>
bool Register(const std::string& suffix) {
  return RegisterKernel("gelu" + suffix, KernelKind::kCpu, MakeGelu<erf>) &&
         RegisterKernel("bias_gelu" + suffix, KernelKind::kCpu, MakeGelu<erf>) &&
         RegisterKernel("gelu" + suffix + "_gradient", KernelKind::kCpu, MakeGeluGradient<erf>) &&
         RegisterKernel("bias_gelu" + suffix + "_gradient", KernelKind::kCpu, MakeBiasGeluGradient<erf>);
}

[[maybe_unused]] const bool registered = Register<false>("") && Register<true>("_erf");

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
