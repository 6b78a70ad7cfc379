// IEEE half precision as files hold it, to and from float32. (bfloat16: runtime/tensor/bfloat16.h.)
//
//   HalfFromFloat(1.0f)    -> 0x3C00
//   FloatFromHalf(0x3C00)  -> 1.0f
//
// Narrowing rounds to nearest, ties to even; what is too large becomes infinite, a NaN stays a (quiet) NaN.
#ifndef REPRISE_RUNTIME_SNAPSHOT_HALF_H_
#define REPRISE_RUNTIME_SNAPSHOT_HALF_H_

#include <bit>
#include <cstdint>

namespace reprise {

constexpr float FloatFromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // subnormal or zero: exact in float32
  return sign == 0 ? magnitude : -magnitude;
}

constexpr uint16_t HalfFromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {
    // Below 2^-14 a half counts in steps of 2^-24: adding 0.5, whose own step is 2^-24, rounds to them.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000));
  }
  const uint32_t rebased = magnitude - (112U << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13));
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_HALF_H_
