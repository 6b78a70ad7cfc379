// Vectorised exponentials of numbers that are not positive; compiled once for each instruction set.
//
//   const FloatVector e = ExponentialOf(hn::Neg(hn::Abs(x)));   // e^-|x| in (0, 1]

// Include guard of Highway's kind: the file is read again for each target.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_EXPONENTIAL_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_EXPONENTIAL_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_EXPONENTIAL_INL_H_
#endif

#include "hwy/highway.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

constexpr double kLog2E = 1.4426950408889634074;

HWY_INLINE FloatVector Constant(double value) { return hn::Set(kFloats, static_cast<float>(value)); }

// Added to 1.5 * 2^23, a number is rounded to an integer, which stands in the lowest bits of the sum.
HWY_INLINE FloatVector Shifter() { return Constant(0x1.8p23); }

// 2^(n + f) for |f| <= 1/2, where n stands in the lowest bits of `shifted`; 0 where t, about n + f, is below -126.
HWY_INLINE FloatVector ScaledPower(FloatVector f, FloatVector shifted, FloatVector t) {
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

// 2^t for t <= 0, and 0 for t < -126 and NaN; the relative error is that of t and 1.5 units in the last place.
HWY_INLINE FloatVector PowerOfTwo(FloatVector t) {
  const FloatVector shifted = hn::Add(t, Shifter());
  return ScaledPower(hn::Sub(t, hn::Sub(shifted, Shifter())), shifted, t);
}

// e^(x + rest) for x <= 0 and a rest that is small beside 1; 0 for x < -87.3 and NaN. Within 2 units in the last place,
// with and without fused multiply-add: ln(2) is in two parts, the first of so few bits that its multiples are exact
// (Cody and Waite 1980).
HWY_INLINE FloatVector ExponentialOf(FloatVector x, FloatVector rest) {
  constexpr double kUpperLn2 = 0x1.62e4p-1;
  constexpr double kLowerLn2 = 0x1.7f7d1cf79abcap-20;
  const FloatVector t = hn::Mul(x, Constant(kLog2E));
  const FloatVector shifted = hn::Add(t, Shifter());
  const FloatVector n = hn::Sub(shifted, Shifter());
  const FloatVector upper = hn::NegMulAdd(n, Constant(kUpperLn2), x);
  const FloatVector r = hn::Add(hn::NegMulAdd(n, Constant(kLowerLn2), upper), rest);
  return ScaledPower(hn::Mul(r, Constant(kLog2E)), shifted, t);
}

HWY_INLINE FloatVector ExponentialOf(FloatVector x) { return ExponentialOf(x, hn::Zero(kFloats)); }

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // REPRISE_RUNTIME_TENSOR_CPU_EXPONENTIAL_INL_H_
