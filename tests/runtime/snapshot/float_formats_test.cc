#include "runtime/snapshot/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reprise {
namespace {

// The value of half `bits` from its definition, in double.
double HalfByDefinition(int bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : NAN;
  return (bits & 0x8000) != 0 ? -value : value;
}

TEST(Half, EveryValueWidensAsDefined) {
  for (int bits = 0; bits < 65536; ++bits) {
    const double expected = HalfByDefinition(bits);
    const float got = FloatFromHalf(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(got)))) << bits;
    } else {
      ASSERT_EQ(got, expected) << bits;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << bits;
      ASSERT_EQ(HalfFromFloat(got), bits);
    }
  }
}

TEST(Half, RoundsToNearestEvenBetweenNeighbours) {
  for (int bits = 0; bits < 0x7BFF; ++bits) {
    const double low = HalfByDefinition(bits);
    const double high = HalfByDefinition(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const float below = std::nextafter(middle, 0.0F);
    const float above = std::nextafter(middle, 1e9F);
    ASSERT_EQ(HalfFromFloat(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(HalfFromFloat(below), bits);
    ASSERT_EQ(HalfFromFloat(above), bits + 1);
    ASSERT_EQ(HalfFromFloat(-above), (bits + 1) | 0x8000);
  }
  EXPECT_EQ(HalfFromFloat(65519.996F), 0x7BFF);
  EXPECT_EQ(HalfFromFloat(65520.0F), 0x7C00);
  EXPECT_EQ(HalfFromFloat(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(HalfFromFloat(1e-30F), 0);
}

TEST(BFloat16, RoundsToNearestEvenBetweenNeighbours) {
  for (int bits = 0; bits < 0x7F7F; ++bits) {
    const float low = FloatFromBFloat16(static_cast<uint16_t>(bits));
    const float high = FloatFromBFloat16(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((double{low} + double{high}) / 2);
    ASSERT_EQ(BFloat16FromFloat(low), bits);
    ASSERT_EQ(BFloat16FromFloat(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(BFloat16FromFloat(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(BFloat16FromFloat(-std::nextafter(middle, HUGE_VALF)), (bits + 1) | 0x8000);
  }
}

TEST(BFloat16, KnownBits) {
  EXPECT_EQ(BFloat16FromFloat(1.0F), 0x3F80);
  EXPECT_EQ(BFloat16FromFloat(-2.0F), 0xC000);
  EXPECT_EQ(BFloat16FromFloat(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(FloatFromBFloat16(BFloat16FromFloat(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace reprise
