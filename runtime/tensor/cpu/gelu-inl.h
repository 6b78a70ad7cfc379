// The two forms of GELU (Hendrycks and Gimpel 2016) and their derivatives; compiled once for each instruction set.
//
//   TanhForm::Value(x)    x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, as GPT-2 has it
//   ErfForm::Slope(x)     the derivative of x (1 + erf(x / sqrt(2))) / 2 = x Phi(x), as ViT and BERT have it

// Include guard of Highway's kind: the file is read again for each target.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_GELU_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_GELU_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_GELU_INL_H_
#endif

#include "hwy/highway.h"
#include "runtime/tensor/cpu/exponential-inl.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

constexpr double kTanhScale = 0.7978845608028653559;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

// With u = scale (x + cubic x^3) and e = exp(-2 |u|), (1 + tanh(u)) / 2 is 1 / (1 + e) or, for negative u, e / (1 + e):
// no cancellation anywhere. Where e is 0 the function has reached its limits, also at the infinities.
struct TanhTerms {
  HWY_INLINE explicit TanhTerms(FloatVector x)
      : square(hn::Mul(x, x)),
        e(PowerOfTwo(hn::Mul(hn::Abs(x), hn::MulAdd(Constant(-2 * kTanhScale * kTanhCubic * kLog2E), square,
                                                    Constant(-2 * kTanhScale * kLog2E))))),
        inverse(hn::Div(Constant(1), hn::Add(Constant(1), e))),
        share(hn::Mul(hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), e, Constant(1)), inverse)) {}

  const FloatVector square;
  const FloatVector e;
  const FloatVector inverse;
  const FloatVector share;
};

struct TanhForm {
  static HWY_INLINE FloatVector Value(FloatVector x) {
    const auto vanished = hn::Lt(x, Constant(-100));  // minus infinity would give NaN
    return hn::IfThenZeroElse(vanished, hn::Mul(x, TanhTerms(x).share));
  }

  static HWY_INLINE FloatVector Slope(FloatVector x) {
    const TanhTerms terms(x);
    const FloatVector du = hn::MulAdd(Constant(6 * kTanhScale * kTanhCubic), terms.square, Constant(2 * kTanhScale));
    const FloatVector curve = hn::Mul(hn::Mul(terms.e, terms.inverse), terms.inverse);
    const FloatVector slope = hn::MulAdd(hn::Mul(x, du), curve, terms.share);
    const auto at_limit = hn::Gt(hn::Abs(x), Constant(100));  // where x du may be infinite; not for NaN
    return hn::IfThenElse(at_limit, terms.share, slope);
  }
};

// The normal distribution function Phi, and with it erf(z) = 2 Phi(z sqrt(2)) - 1, to an absolute error of 1e-7, and
// Phi to a small relative error in the lower tail too. Two parts, both fitted for the least largest relative error:
//
//   |x| <= 1: Phi(x) = 1/2 + x Q(x^2), Q of degree 5 (7e-10)
//   beyond:   Phi(-a) = exp(-a^2 / 2) R(a), where R falls slowly from 1/2 and is nearly a polynomial in
//             t = 1 / (1 + 0.3 a): the form of Hastings (1955), of degree 10 without a constant, for a <= 13.3 (3.5e-9)
HWY_INLINE FloatVector CentreRatio(FloatVector square) {
  FloatVector q = Constant(-7.654208747909534e-06);
  q = hn::MulAdd(q, square, Constant(0.0001134863747804521));
  q = hn::MulAdd(q, square, Constant(-0.0011863299464561772));
  q = hn::MulAdd(q, square, Constant(0.00997332341264771));
  q = hn::MulAdd(q, square, Constant(-0.06649035992414894));
  return hn::MulAdd(q, square, Constant(0.39894228011770416));
}

HWY_INLINE FloatVector TailRatio(FloatVector a) {
  const FloatVector t = hn::Div(Constant(1), hn::MulAdd(Constant(0.3), a, Constant(1)));
  FloatVector p = Constant(-0.02058463229403138);
  p = hn::MulAdd(p, t, Constant(0.11221701081233859));
  p = hn::MulAdd(p, t, Constant(-0.22767933021228978));
  p = hn::MulAdd(p, t, Constant(0.19104180121790054));
  p = hn::MulAdd(p, t, Constant(-0.0787775601059831));
  p = hn::MulAdd(p, t, Constant(0.09579318268593767));
  p = hn::MulAdd(p, t, Constant(0.07852189017510919));
  p = hn::MulAdd(p, t, Constant(0.11020553815721512));
  p = hn::MulAdd(p, t, Constant(0.11957561492502053));
  p = hn::MulAdd(p, t, Constant(0.11968648293116005));
  return hn::Mul(p, t);
}

struct ErfTerms {
  HWY_INLINE explicit ErfTerms(FloatVector x) {
    // exp(-a^2 / 2) has vanished at 14.5; larger squares might not be finite. NaN stays.
    const FloatVector size = hn::Abs(x);
    const FloatVector a = hn::IfThenElse(hn::Gt(size, Constant(14.5)), Constant(14.5), size);
    // The square of the upper 12 bits is exact; a^2 = upper^2 + (a - upper) (a + upper), as in Cody's erfc (1969).
    const WordTag words;
    const FloatVector upper = hn::BitCast(kFloats, hn::And(hn::BitCast(words, a), hn::Set(words, 0xFFFFF000U)));
    const FloatVector rest = hn::Mul(hn::Sub(upper, a), hn::Add(upper, a));
    density = ExponentialOf(hn::Mul(hn::Mul(upper, upper), Constant(-0.5)), hn::Mul(rest, Constant(0.5)));
    const FloatVector tail = hn::Mul(density, TailRatio(a));
    const FloatVector outer = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), tail, hn::Sub(Constant(1), tail));
    const FloatVector centre = hn::MulAdd(x, CentreRatio(hn::Mul(x, x)), Constant(0.5));
    share = hn::IfThenElse(hn::Le(size, Constant(1)), centre, outer);
    clamped = hn::CopySign(a, x);
  }

  FloatVector density;  // exp(-x^2 / 2)
  FloatVector share;    // Phi(x)
  FloatVector clamped;  // x, between -14.5 and 14.5
};

struct ErfForm {
  static HWY_INLINE FloatVector Value(FloatVector x) {
    const auto vanished = hn::Lt(x, Constant(-100));  // minus infinity would give NaN
    return hn::IfThenZeroElse(vanished, hn::Mul(x, ErfTerms(x).share));
  }

  static HWY_INLINE FloatVector Slope(FloatVector x) {
    constexpr double kDensityAtZero = 0.3989422804014327;  // 1 / sqrt(2 pi)
    const ErfTerms terms(x);
    return hn::MulAdd(terms.clamped, hn::Mul(terms.density, Constant(kDensityAtZero)), terms.share);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // REPRISE_RUNTIME_TENSOR_CPU_GELU_INL_H_
