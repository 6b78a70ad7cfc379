#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

const Attributes kAttributes = Attributes().Set("epsilon", 1e-5);

Tolerance ToleranceOf(DType dtype) {
  return dtype == DType::kBFloat16 ? Tolerance{0x1p-7, 1e-3} : Tolerance{1e-4, 2e-5};
}

TEST(LayerNorm, IsItsFormula) {
  const TensorType row{DType::kFloat64, {2}};
  const std::vector<Values> out =
      RunKernel(MakeSpec("layer_norm", {{DType::kFloat64, {2, 2}}, row, row}, Attributes().Set("epsilon", 0.0)),
                {{1, 3, -5, 3}, {2, 3}, {10, 20}});
  ExpectClose(out[0], {8, 23, 8, 23}, {1e-15}, "y");
  ExpectClose(out[1], {2, -1}, {1e-15}, "mean");
  ExpectClose(out[2], {1, 0.25}, {1e-15}, "rstd");
}

TEST(LayerNorm, OfEqualElementsIsTheBias) {
  for (const KernelKind kind : kKernelKinds) {
    const TensorType row{DType::kFloat32, {3}};
    const std::vector<Values> out =
        RunKernel(MakeSpec("layer_norm", {{DType::kFloat32, {1, 3}}, row, row}, kAttributes),
                  {{7, 7, 7}, {1, 2, 3}, {4, 5, 6}}, {.kind = kind});
    EXPECT_EQ(out[0], (Values{4, 5, 6}));
    EXPECT_EQ(out[1], Values{7});
    EXPECT_NEAR(out[2][0], 1 / std::sqrt(1e-5), 1e-3);
  }
}

// A variance from squares minus the square of the mean would be lost here.
TEST(LayerNorm, StandsALargeMean) {
  const int64_t width = 512;
  Values x = RandomValues(width, 1, 4096, 4097);
  for (double& v : x) v = Stored(v, DType::kFloat32);
  const std::vector<Values> inputs = {x, Values(512, 1.0), Values(512, 0.0)};
  const auto run = [&](DType dtype, KernelKind kind) {
    const TensorType row{dtype, {width}};
    return RunKernel(MakeSpec("layer_norm", {{dtype, {1, width}}, row, row}, kAttributes), inputs, {.kind = kind});
  };
  const std::vector<Values> exact = run(DType::kFloat64, KernelKind::kReference);
  const std::vector<Values> fast = run(DType::kFloat32, KernelKind::kCpu);
  ExpectClose(fast[0], exact[0], {1e-3, 2e-3}, "y");
  ExpectClose(fast[2], exact[2], {1e-4, 0}, "rstd");
}

TEST(LayerNorm, FastAgreesWithReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 37, 130}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        const TensorType x{dtype, {rows, width}};
        const TensorType row{dtype, {width}};
        const TensorType statistic{DType::kFloat32, {rows}};
        const Values a = RandomValues(rows * width, 1, -2, 2);
        const Values b = RandomValues(rows * width, 2, -2, 2);
        const Values gain = RandomValues(width, 3, 0.5, 1.5);
        const Values bias = RandomValues(width, 4);
        const bool cuda = rows < 130;  // 37 are several chunks too
        const KernelSpec forward = MakeSpec("layer_norm", {x, row, row}, kAttributes);
        ExpectKernelsAgree(forward, {a, gain, bias}, ToleranceOf(dtype), {.cuda = cuda});
        ExpectKernelsAgree(MakeSpec("add_layer_norm", {x, x, row, row}, kAttributes), {a, b, gain, bias},
                           ToleranceOf(dtype), {.cuda = cuda});
        const std::vector<Values> y = RunKernel(forward, {a, gain, bias});
        const Tolerance tolerance = {ToleranceOf(dtype).relative, width == 1 ? 1e-2 : 2e-3};
        ExpectKernelsAgree(MakeSpec("layer_norm_gradient", {x, row, statistic, statistic, x}, kAttributes),
                           {a, gain, y[1], y[2], b}, tolerance, {.accumulated = 6, .cuda = cuda});
        ExpectKernelsAgree(MakeSpec("layer_norm_gradient", {x, row, statistic, statistic, x, x}, kAttributes),
                           {a, gain, y[1], y[2], b, a}, tolerance, {.accumulated = 6, .cuda = cuda});
      }
    }
  }
}

TEST(AddLayerNorm, HasTheBitsOfAddThenLayerNorm) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const TensorType x{dtype, {5, 67}};
      const TensorType row{dtype, {67}};
      const Values a = RandomValues(5 * 67, 1);
      const Values b = RandomValues(5 * 67, 2);
      const Values gain = RandomValues(67, 3);
      const Values bias = RandomValues(67, 4);
      const KernelRun run = {.kind = kind};
      const Values sum = RunKernel(MakeSpec("add", {x, x}), {a, b}, run)[0];
      const auto apart = RunKernel(MakeSpec("layer_norm", {x, row, row}, kAttributes), {sum, gain, bias}, run);
      const auto fused = RunKernel(MakeSpec("add_layer_norm", {x, x, row, row}, kAttributes), {a, b, gain, bias}, run);
      EXPECT_TRUE(SameBits(fused[0], sum));
      for (size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(SameBits(fused[i + 1], apart[i])) << i;
    }
  }
}

}  // namespace
}  // namespace reprise::testing
