#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/activation.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/tensor/cpu/column_sums.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

constexpr float kScale = 0.79788456F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// With u = scale (x + cubic x^3) and e = exp(-2 |u|), (1 + tanh(u)) / 2 is 1 / (1 + e) or, for negative u, e / (1 + e):
// no cancellation anywhere. Where e is 0 the function has reached its limits, also at the infinities.
struct GeluTerms {
  HWY_INLINE explicit GeluTerms(FloatVector x)
      : square(hn::Mul(x, x)),
        u(hn::Mul(hn::Mul(hn::Set(kFloats, kScale), x), hn::MulAdd(hn::Set(kFloats, kCubic), square, one))),
        e(hn::Exp(kFloats, hn::Mul(hn::Set(kFloats, -2), hn::Abs(u)))),
        inverse(hn::Div(one, hn::Add(one, e))),
        share(hn::Mul(hn::IfThenElse(hn::Lt(u, hn::Zero(kFloats)), e, one), inverse)) {}

  const FloatVector one = hn::Set(kFloats, 1);
  const FloatVector square;
  const FloatVector u;
  const FloatVector e;
  const FloatVector inverse;
  const FloatVector share;
};

HWY_INLINE FloatVector Gelu(FloatVector x) {
  const GeluTerms terms(x);
  const auto vanished = hn::And(hn::Eq(terms.share, hn::Zero(kFloats)), hn::Lt(x, hn::Zero(kFloats)));
  return hn::IfThenElse(vanished, hn::Zero(kFloats), hn::Mul(x, terms.share));
}

HWY_INLINE FloatVector GeluSlope(FloatVector x) {
  const GeluTerms terms(x);
  const auto du = hn::MulAdd(hn::Set(kFloats, 2 * 3 * kScale * kCubic), terms.square, hn::Set(kFloats, 2 * kScale));
  const auto curve = hn::Mul(hn::Mul(terms.e, terms.inverse), terms.inverse);
  const auto slope = hn::MulAdd(hn::Mul(x, du), curve, terms.share);
  const auto at_limit = hn::And(hn::Eq(terms.e, hn::Zero(kFloats)), hn::Eq(x, x));  // NaN stays NaN
  return hn::IfThenElse(at_limit, terms.share, slope);
}

template <typename T>
void GeluRowOf(const T* x, const T* bias, T* g, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v = LoadVector(x + i, lanes);
    StoreVector(Gelu(bias == nullptr ? v : hn::Add(v, LoadVector(bias + i, lanes))), g + i, lanes);
  });
}

// Rows of `width` elements; `bias` may be null.
template <typename T>
void GeluRowsOf(const void* x, const void* bias, void* g, int64_t first, int64_t last, int64_t width) {
  for (int64_t row = first; row < last; ++row) {
    GeluRowOf(static_cast<const T*>(x) + row * width, static_cast<const T*>(bias), static_cast<T*>(g) + row * width,
              width);
  }
}

void GeluRows(bool bfloat16, const void* x, const void* bias, void* g, int64_t first, int64_t last, int64_t width) {
  bfloat16 ? GeluRowsOf<BFloat16>(x, bias, g, first, last, width) : GeluRowsOf<float>(x, bias, g, first, last, width);
}

// dx = dg * slope, and its sums; `bias`, `dx` and `sums` may be null.
template <typename T>
void GradientRowOf(const T* x, const T* bias, const T* dg, T* dx, float* sums, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    FloatVector v = LoadVector(x + i, lanes);
    if (bias != nullptr) v = hn::Add(v, LoadVector(bias + i, lanes));
    const FloatVector d = hn::Mul(LoadVector(dg + i, lanes), GeluSlope(v));
    if (dx != nullptr) StoreVector(d, dx + i, lanes);
    if (sums != nullptr) StoreVector(hn::Add(LoadVector(sums + i, lanes), d), sums + i, lanes);
  });
}

template <typename T>
void GradientRowsOf(const void* x, const void* bias, const void* dg, void* dx, float* sums, int64_t first, int64_t last,
                    int64_t width) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t offset = row * width;
    GradientRowOf(static_cast<const T*>(x) + offset, static_cast<const T*>(bias), static_cast<const T*>(dg) + offset,
                  dx == nullptr ? nullptr : static_cast<T*>(dx) + offset, sums, width);
  }
}

void GradientRows(bool bfloat16, const void* x, const void* bias, const void* dg, void* dx, float* sums, int64_t first,
                  int64_t last, int64_t width) {
  bfloat16 ? GradientRowsOf<BFloat16>(x, bias, dg, dx, sums, first, last, width)
           : GradientRowsOf<float>(x, bias, dg, dx, sums, first, last, width);
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

// gelu and bias_gelu
KernelOr MakeGelu(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const bool biased = spec.inputs.size() > 1;
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec, [rows, width, biased, bfloat16,
                               threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(GeluRows)
      (bfloat16, arguments.inputs[0], biased ? arguments.inputs[1] : nullptr, arguments.outputs[0], begin, end, width);
    });
  });
}

KernelOr MakeGeluGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec, [rows, width, bfloat16, threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(GradientRows)
      (bfloat16, arguments.inputs[0], nullptr, arguments.inputs[1], arguments.outputs[0], nullptr, begin, end, width);
    });
  });
}

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
        (bfloat16, arguments.inputs[0], arguments.inputs[1], arguments.inputs[2], arguments.outputs[0], partial,
         sums.FirstRow(chunk), sums.FirstRow(chunk + 1), width);
      }
    });
    if (db != nullptr) sums.Combine(threads, arguments.scratch, db, Accumulates(arguments, 1));
  };
  return MakeFastKernel(spec, run, sums.scratch_bytes());
}

[[maybe_unused]] const bool registered = RegisterKernel("gelu", KernelKind::kCpu, MakeGelu) &&
                                         RegisterKernel("bias_gelu", KernelKind::kCpu, MakeGelu) &&
                                         RegisterKernel("gelu_gradient", KernelKind::kCpu, MakeGeluGradient) &&
                                         RegisterKernel("bias_gelu_gradient", KernelKind::kCpu, MakeBiasGeluGradient);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
