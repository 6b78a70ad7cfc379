#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr DType kF64 = DType::kFloat64;
const Attributes kAttributes = Attributes().Set("epsilon", 1e-5);

Tolerance ToleranceOf(DType dtype) {
  return dtype == DType::kBFloat16 ? Tolerance{0x1p-7, 1e-3} : Tolerance{1e-5, 1e-6};
}

TEST(RmsNorm, IsItsFormula) {
  const std::vector<Values> out =
      RunKernel(MakeSpec("rms_norm", {{kF64, {2, 2}}, {kF64, {2}}}, Attributes().Set("epsilon", 0.5)),
                {{1, 7, -0.5, 0.5}, {2, -3}});
  const double rstd = 1 / std::sqrt(25.5);
  const double small_rstd = 1 / std::sqrt(0.75);
  ExpectClose(out[0], {2 * rstd, -21 * rstd, -small_rstd, -1.5 * small_rstd}, {1e-15}, "y");
  ExpectClose(out[1], {rstd, small_rstd}, {1e-15}, "rstd");
}

TEST(RmsNorm, OfZerosIsZero) {
  for (const KernelKind kind : kKernelKinds) {
    const auto out = RunKernel(MakeSpec("rms_norm", {{DType::kFloat32, {1, 3}}, {DType::kFloat32, {3}}}, kAttributes),
                               {{0, 0, 0}, {1, 2, 3}}, {.kind = kind});
    EXPECT_EQ(out[0], (Values{0, 0, 0}));
    EXPECT_NEAR(out[1][0], 1 / std::sqrt(1e-5), 1e-4);
  }
}

// Rounding once, after the gain, gives other numbers for some of these.
TEST(RmsNorm, RoundsTheNormalizedToBFloat16BeforeTheGain) {
  const double gain = 1.1015625;
  const TensorType x{DType::kBFloat16, {1, 1}};
  for (const KernelKind kind : kKernelKinds) {
    int differ = 0;
    for (int i = 64; i < 192; ++i) {
      const double value = i / 256.0;
      const double normalized = value / std::sqrt(value * value + 1);
      const double twice = Stored(gain * Stored(normalized, DType::kBFloat16), DType::kBFloat16);
      const auto out = RunKernel(MakeSpec("rms_norm", {x, {DType::kBFloat16, {1}}}, Attributes().Set("epsilon", 1.0)),
                                 {{value}, {gain}}, {.kind = kind});
      EXPECT_EQ(out[0][0], twice) << value;
      if (twice != Stored(gain * normalized, DType::kBFloat16)) ++differ;
    }
    EXPECT_GT(differ, 0);
  }
}

TEST(RmsNorm, FastAgreesWithReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 37, 130}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        const TensorType x{dtype, {rows, width}};
        const TensorType row{dtype, {width}};
        const TensorType statistic{DType::kFloat32, {rows}};
        const Values a = RandomValues(rows * width, 1, -2, 2);
        const Values b = RandomValues(rows * width, 2, -2, 2);
        const Values gain = RandomValues(width, 3, 0.5, 1.5);
        const bool cuda = rows < 130;  // 37 are several chunks too
        const KernelSpec forward = MakeSpec("rms_norm", {x, row}, kAttributes);
        ExpectKernelsAgree(forward, {a, gain}, ToleranceOf(dtype), {.cuda = cuda});
        ExpectKernelsAgree(MakeSpec("add_rms_norm", {x, x, row}, kAttributes), {a, b, gain}, ToleranceOf(dtype),
                           {.cuda = cuda});
        const Values rstd = RunKernel(forward, {a, gain})[1];
        const Tolerance tolerance = {ToleranceOf(dtype).relative, width == 1 ? 1e-2 : 2e-3};
        ExpectKernelsAgree(MakeSpec("rms_norm_gradient", {x, row, statistic, x}, kAttributes), {a, gain, rstd, b},
                           tolerance, {.accumulated = 2, .cuda = cuda});
        ExpectKernelsAgree(MakeSpec("rms_norm_gradient", {x, row, statistic, x, x}, kAttributes), {a, gain, rstd, b, a},
                           tolerance, {.accumulated = 2, .cuda = cuda});
      }
    }
  }
}

TEST(AddRmsNorm, HasTheBitsOfAddThenRmsNorm) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const TensorType x{dtype, {5, 67}};
      const TensorType row{dtype, {67}};
      const Values a = RandomValues(5 * 67, 1);
      const Values b = RandomValues(5 * 67, 2);
      const Values gain = RandomValues(67, 3);
      const KernelRun run = {.kind = kind};
      const Values sum = RunKernel(MakeSpec("add", {x, x}), {a, b}, run)[0];
      const auto apart = RunKernel(MakeSpec("rms_norm", {x, row}, kAttributes), {sum, gain}, run);
      const auto fused = RunKernel(MakeSpec("add_rms_norm", {x, x, row}, kAttributes), {a, b, gain}, run);
      EXPECT_TRUE(SameBits(fused[0], sum));
      for (size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(SameBits(fused[i + 1], apart[i])) << i;
    }
  }
}

TEST(RmsNormGradient, MatchesFiniteDifferences) {
  const Attributes attributes = Attributes().Set("epsilon", 0.1);  // keeps the curvature of narrow rows small
  for (const int64_t width : {1, 2, 7}) {
    const TensorType x{kF64, {3, width}};
    const TensorType row{kF64, {width}};
    const KernelSpec forward = MakeSpec("rms_norm", {x, row}, attributes);
    const KernelSpec backward = MakeSpec("rms_norm_gradient", {x, row, {kF64, {3}}, x}, attributes);
    ExpectGradientMatchesFiniteDifferences(forward, {RandomValues(3 * width, 1), RandomValues(width, 2)}, {0, 1},
                                           [&](const auto& in, const auto& out, const auto& d) {
                                             return RunKernel(backward, {in[0], in[1], out[1], d[0]});
                                           });
  }
}

// The sum has a reader of its own: its gradient is the residual of rms_norm_gradient.
TEST(AddRmsNormGradient, MatchesFiniteDifferences) {
  const TensorType x{kF64, {2, 5}};
  const TensorType row{kF64, {5}};
  const KernelSpec forward = MakeSpec("add_rms_norm", {x, x, row}, kAttributes);
  const KernelSpec backward = MakeSpec("rms_norm_gradient", {x, row, {kF64, {2}}, x, x}, kAttributes);
  ExpectGradientMatchesFiniteDifferences(
      forward, {RandomValues(10, 1), RandomValues(10, 2), RandomValues(5, 3)}, {0, 1, 2},
      [&](const auto& in, const auto& out, const auto& d) -> std::vector<Values> {
        const std::vector<Values> g = RunKernel(backward, {out[0], in[2], out[2], d[1], d[0]});
        return {g[0], g[0], g[1]};
      },
      {.outputs = {0, 1}});
}

}  // namespace
}  // namespace reprise::testing
