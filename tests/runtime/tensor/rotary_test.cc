#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tensor/operation.h"
#include "runtime/tensor/rotary_table.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

Attributes AttributesOf(int64_t heads, int64_t length, double theta = 1e4) {
  return Attributes()
      .Set("heads", heads)
      .Set("sequence_length", length)
      .Set("theta", theta)
      .Set("scaling", 0)
      .Set("inverse", 0);
}

Attributes Llama3(Attributes attributes) {
  return attributes.Set("scaling", 1)
      .Set("factor", 8.0)
      .Set("low_frequency_factor", 1.0)
      .Set("high_frequency_factor", 4.0)
      .Set("original_length", 8192);
}

// Head size 4: features 0 and 2 turn by the position, 1 and 3 by a hundredth of it.
TEST(Rotary, TurnsTheHalvesOfAHeadTogether) {
  for (const KernelKind kind : kKernelKinds) {
    const KernelSpec spec = MakeSpec("rotary", {{DType::kFloat32, {2, 8}}}, AttributesOf(2, 2));
    const Values y = RunKernel(spec, {{1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 1, 0, 2}}, {.kind = kind})[0];
    const double c = std::cos(0.01);
    const double s = std::sin(0.01);
    ExpectClose(y, {1, 2, 3, 4, 5, 6, 7, 8, 0.5403023, 0, 0.8414710, 0, 0, c - 2 * s, 0, 2 * c + s}, {1e-7, 1e-8}, "y");
  }
}

TEST(Rotary, PositionsBeginAgainWithASequenceOrAreGiven) {
  const TensorType x{DType::kFloat32, {6, 2}};
  const Values ones(12, 1.0);
  for (const KernelKind kind : kKernelKinds) {
    const auto expected = [](const std::vector<int>& positions) {
      Values y;
      for (const int p : positions) y.insert(y.end(), {std::cos(p) - std::sin(p), std::cos(p) + std::sin(p)});
      return y;
    };
    const Values counted = RunKernel(MakeSpec("rotary", {x}, AttributesOf(1, 3)), {ones}, {.kind = kind})[0];
    ExpectClose(counted, expected({0, 1, 2, 0, 1, 2}), {1e-6, 1e-7}, "counted");
    const KernelSpec given = MakeSpec("rotary", {x, {DType::kInt32, {6}}}, AttributesOf(1, 3));
    const Values packed = RunKernel(given, {ones, {0, 1, 0, 0, 1, 2}}, {.kind = kind})[0];
    ExpectClose(packed, expected({0, 1, 0, 0, 1, 2}), {1e-6, 1e-7}, "given");
  }
}

TEST(RotaryDeathTest, APositionBeyondTheSequenceIsRefused) {
  const KernelSpec spec = MakeSpec("rotary", {{DType::kFloat32, {1, 2}}, {DType::kInt32, {1}}}, AttributesOf(1, 1));
  EXPECT_DEATH(RunKernel(spec, {{1, 1}, {1}}), "position 1 of row 0");
  EXPECT_DEATH(RunKernel(spec, {{1, 1}, {-1}}, {.kind = KernelKind::kCpu}), "position -1 of row 0");
}

TEST(RotaryDeathTest, AnOddHeadIsRefused) {
  EXPECT_DEATH(GetOperation("rotary").infer({{DType::kFloat32, {1, 6}}}, AttributesOf(2, 1)), "rotary cannot take");
}

// In closed form, in float64; the wavelengths of 2 pi theta^(2i/64) run through all three ranges.
TEST(Rotary, Llama3ScalesLongWaves) {
  const std::vector<float> plain = RotaryFrequencies(AttributesOf(1, 1, 5e5), 64);
  const std::vector<float> scaled = RotaryFrequencies(Llama3(AttributesOf(1, 1, 5e5)), 64);
  ASSERT_EQ(scaled.size(), 32U);
  int kinds[3] = {};
  for (size_t i = 0; i < 32; ++i) {
    const double frequency = std::pow(5e5, -static_cast<double>(i) / 32);
    EXPECT_NEAR(plain[i], frequency, 2e-7 * frequency);
    const double waves = 8192 * frequency / (2 * M_PI);  // in the original length
    const double kept = waves > 4 ? 1 : waves < 1 ? 0 : (waves - 1) / 3;
    const double expected = kept * frequency + (1 - kept) * frequency / 8;
    EXPECT_NEAR(scaled[i], expected, 1e-6 * expected) << i;
    ++kinds[kept == 1 ? 0 : kept == 0 ? 1 : 2];
  }
  for (const int count : kinds) EXPECT_GT(count, 1);
}

// Far positions: the angle is the float32 product, not a more exact one.
TEST(Rotary, AnglesAreFloat32) {
  const int64_t length = 100001;
  KernelSpec spec = MakeSpec("rotary", {{DType::kFloat64, {length, 6}}}, AttributesOf(1, length));
  const auto table = SharedRotaryTable(spec);
  const std::vector<float> frequencies = RotaryFrequencies(spec.attributes, 6);
  for (size_t i = 0; i < 3; ++i) {
    const float angle = 100000.0F * frequencies[i];
    EXPECT_FLOAT_EQ(table->cosine[3 * 100000 + i], static_cast<float>(std::cos(static_cast<double>(angle))));
    EXPECT_FLOAT_EQ(table->sine[3 * 100000 + i], static_cast<float>(std::sin(static_cast<double>(angle))));
  }
}

TEST(Rotary, TheTableIsSharedByBothDirectionsAndRoundedForBFloat16) {
  Attributes inverse = AttributesOf(4, 5);
  inverse.Set("inverse", 1);
  const auto table = SharedRotaryTable(MakeSpec("rotary", {{DType::kFloat32, {5, 8}}}, AttributesOf(2, 5)));
  EXPECT_EQ(SharedRotaryTable(MakeSpec("rotary", {{DType::kFloat32, {5, 16}}}, inverse)), table);
  const auto rounded = SharedRotaryTable(MakeSpec("rotary", {{DType::kBFloat16, {5, 8}}}, AttributesOf(2, 5)));
  EXPECT_EQ(rounded->cosine[2], Stored(std::cos(1.0), DType::kBFloat16));
  EXPECT_NE(rounded->cosine[2], table->cosine[2]);
}

TEST(Rotary, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t heads : {1, 3}) {
      for (const int64_t size : {2, 6, 10, 32, 66, 128}) {
        for (const int64_t length : {1, 7, 65}) {
          const TensorType x{dtype, {2 * length, heads * size}};
          const Values values = RandomValues(x.elements(), 1, -2, 2);
          Attributes attributes = Llama3(AttributesOf(heads, length, 5e5));
          ExpectKernelsAgree(MakeSpec("rotary", {x}, attributes), {values}, {});
          const Values positions = RandomIntegers(2 * length, 2, length);
          ExpectKernelsAgree(MakeSpec("rotary", {x, {DType::kInt32, {2 * length}}}, attributes.Set("inverse", 1)),
                             {values, positions}, {});
        }
      }
    }
  }
}

TEST(RotaryGradient, IsTheRotationBack) {
  const TensorType x{DType::kFloat64, {6, 8}};
  Attributes inverse = AttributesOf(2, 3);
  inverse.Set("inverse", 1);
  const KernelSpec backward = MakeSpec("rotary", {x}, inverse);
  ExpectGradientMatchesFiniteDifferences(
      MakeSpec("rotary", {x}, AttributesOf(2, 3)), {RandomValues(48, 1)}, {0},
      [&](const auto&, const auto&, const auto& d) { return RunKernel(backward, {d[0]}); });
}

}  // namespace
}  // namespace reprise::testing
