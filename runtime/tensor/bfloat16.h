// bfloat16: the upper half of a float32, rounded to nearest, ties to even; NaN stays NaN.
#ifndef REPRISE_RUNTIME_TENSOR_BFLOAT16_H_
#define REPRISE_RUNTIME_TENSOR_BFLOAT16_H_

#include <bit>
#include <cstdint>

namespace reprise {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value) : bits(Round(value)) {}
  explicit constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static constexpr uint16_t Round(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((word >> 16) | 0x40U);  // quiet NaN
    return static_cast<uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
  }
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_BFLOAT16_H_
