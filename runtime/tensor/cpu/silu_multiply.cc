#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/silu_multiply.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/exponential-inl.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

// With e = exp(-|x|), 1 / (1 + exp(-x)) is 1 / (1 + e) or, for negative x, e / (1 + e): no overflow, no cancellation.
struct SiluTerms {
  HWY_INLINE explicit SiluTerms(FloatVector at)
      : x(at),
        e(ExponentialOf(hn::Neg(hn::Abs(x)))),
        inverse(hn::Div(Constant(1), hn::Add(Constant(1), e))),
        share(hn::Mul(hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), e, Constant(1)), inverse)) {}

  HWY_INLINE FloatVector Value() const {
    const auto vanished = hn::Lt(x, Constant(-100));  // minus infinity would give NaN
    return hn::IfThenZeroElse(vanished, hn::Mul(x, share));
  }

  HWY_INLINE FloatVector Slope() const {
    const FloatVector slope = hn::MulAdd(x, hn::Mul(hn::Mul(e, inverse), inverse), share);
    const auto at_limit = hn::Gt(hn::Abs(x), Constant(100));  // where x e would be NaN; not for NaN
    return hn::IfThenElse(at_limit, share, slope);
  }

  const FloatVector x;
  const FloatVector e;
  const FloatVector inverse;
  const FloatVector share;
};

template <typename T>
void MultiplyOf(const T* gate, const T* up, T* y, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    StoreVector(hn::Mul(SiluTerms(LoadVector(gate + i, lanes)).Value(), LoadVector(up + i, lanes)), y + i, lanes);
  });
}

// `dgate` and `dup` may be null.
template <typename T>
void GradientOf(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    const SiluTerms silu(LoadVector(gate + i, lanes));
    const FloatVector d = LoadVector(dy + i, lanes);
    if (dgate != nullptr) {
      StoreVector(hn::Mul(hn::Mul(d, LoadVector(up + i, lanes)), silu.Slope()), dgate + i, lanes);
    }
    if (dup != nullptr) StoreVector(hn::Mul(d, silu.Value()), dup + i, lanes);
  });
}

// Elements [begin, end).
template <typename T>
void MultiplyRange(const KernelArguments& arguments, int64_t begin, int64_t end) {
  MultiplyOf(Input<T>(arguments, 0) + begin, Input<T>(arguments, 1) + begin, Output<T>(arguments, 0) + begin,
             end - begin);
}

template <typename T>
void GradientRange(const KernelArguments& arguments, int64_t begin, int64_t end) {
  T* dgate = Output<T>(arguments, 0);
  T* dup = Output<T>(arguments, 1);
  GradientOf(Input<T>(arguments, 0) + begin, Input<T>(arguments, 1) + begin, Input<T>(arguments, 2) + begin,
             dgate == nullptr ? nullptr : dgate + begin, dup == nullptr ? nullptr : dup + begin, end - begin);
}

void Multiply(bool bfloat16, const KernelArguments& arguments, int64_t begin, int64_t end) {
  bfloat16 ? MultiplyRange<BFloat16>(arguments, begin, end) : MultiplyRange<float>(arguments, begin, end);
}

void Gradient(bool bfloat16, const KernelArguments& arguments, int64_t begin, int64_t end) {
  bfloat16 ? GradientRange<BFloat16>(arguments, begin, end) : GradientRange<float>(arguments, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(Multiply);
HWY_EXPORT(Gradient);

KernelOr MakeSiluMultiply(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t elements = spec.inputs[0].elements();
  return MakeFastKernel(
      spec, [elements, bfloat16 = IsBFloat16(spec), threads = options.threads](const KernelArguments& arguments) {
        if (arguments.outputs[0] == nullptr) return;
        ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(Multiply)(bfloat16, arguments, begin, end);
        });
      });
}

KernelOr MakeSiluMultiplyGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t elements = spec.inputs[0].elements();
  return MakeFastKernel(
      spec, [elements, bfloat16 = IsBFloat16(spec), threads = options.threads](const KernelArguments& arguments) {
        ParallelFor(threads, elements, kGrainElements, [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(Gradient)(bfloat16, arguments, begin, end);
        });
      });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("silu_multiply", KernelKind::kCpu, MakeSiluMultiply) &&
    RegisterKernel("silu_multiply_gradient", KernelKind::kCpu, MakeSiluMultiplyGradient);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
