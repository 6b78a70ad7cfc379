#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/activation.cc"
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

constexpr double kScale = 0.7978845608028653559;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;
constexpr double kLog2E = 1.4426950408889634074;

HWY_INLINE FloatVector Constant(double value) { return hn::Set(kFloats, static_cast<float>(value)); }

// 2^t for t <= 0, and 0 for t < -126 and NaN; the relative error is that of t and 1.5 units in the last place.
HWY_INLINE FloatVector PowerOfTwo(FloatVector t) {
  // Added to 1.5 * 2^23, t is rounded to an integer, which stands in the lowest bits of the sum.
  const FloatVector shifter = Constant(0x1.8p23);
  const FloatVector shifted = hn::Add(t, shifter);
  const FloatVector f = hn::Sub(t, hn::Sub(shifted, shifter));
  // 2^f on [-1/2, 1/2]: the minimax polynomial of degree 6 with value 1 at 0 (Remez), relative error 3e-9.
  FloatVector power = hn::MulAdd(Constant(0.0001559467816919747), f, Constant(0.0013406643902389268));
  power = hn::MulAdd(power, f, Constant(0.009617692972965197));
  power = hn::MulAdd(power, f, Constant(0.05550310551013717));
  power = hn::MulAdd(power, f, Constant(0.24022652782887974));
  power = hn::MulAdd(power, f, Constant(0.6931472149680279));
  power = hn::MulAdd(power, f, Constant(1));
  const WordTag words;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(words, shifted));
  const FloatVector scaled = hn::BitCast(kFloats, hn::Add(hn::BitCast(words, power), exponent));
  return hn::IfThenElseZero(hn::Ge(t, Constant(-126)), scaled);
}

// With u = scale (x + cubic x^3) and e = exp(-2 |u|), (1 + tanh(u)) / 2 is 1 / (1 + e) or, for negative u, e / (1 + e):
// no cancellation anywhere. Where e is 0 the function has reached its limits, also at the infinities.
struct GeluTerms {
  HWY_INLINE explicit GeluTerms(FloatVector x)
      : square(hn::Mul(x, x)),
        e(PowerOfTwo(hn::Mul(
            hn::Abs(x), hn::MulAdd(Constant(-2 * kScale * kCubic * kLog2E), square, Constant(-2 * kScale * kLog2E))))),
        inverse(hn::Div(Constant(1), hn::Add(Constant(1), e))),
        share(hn::Mul(hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), e, Constant(1)), inverse)) {}

  const FloatVector square;
  const FloatVector e;
  const FloatVector inverse;
  const FloatVector share;
};

HWY_INLINE FloatVector Gelu(FloatVector x) {
  const auto vanished = hn::Lt(x, Constant(-100));  // minus infinity would give NaN
  return hn::IfThenZeroElse(vanished, hn::Mul(x, GeluTerms(x).share));
}

HWY_INLINE FloatVector GeluSlope(FloatVector x) {
  const GeluTerms terms(x);
  const FloatVector du = hn::MulAdd(Constant(6 * kScale * kCubic), terms.square, Constant(2 * kScale));
  const FloatVector curve = hn::Mul(hn::Mul(terms.e, terms.inverse), terms.inverse);
  const FloatVector slope = hn::MulAdd(hn::Mul(x, du), curve, terms.share);
  const auto at_limit = hn::Gt(hn::Abs(x), Constant(100));  // where x du may be infinite; not for NaN
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
