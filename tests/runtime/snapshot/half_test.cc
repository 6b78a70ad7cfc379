#include "runtime/snapshot/half.h"

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

}  // namespace
}  // namespace reprise
