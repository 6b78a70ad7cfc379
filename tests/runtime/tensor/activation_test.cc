#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double GeluByItsFormula(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

Tolerance ToleranceOf(DType dtype) {
  return dtype == DType::kBFloat16 ? Tolerance{0x1p-7, 1e-6} : Tolerance{1e-5, 1e-6};
}

TEST(Gelu, IsItsFormula) {
  const Values x = RandomValues(200, 1, -6, 6);
  const KernelSpec spec = MakeSpec("gelu", {{DType::kFloat64, {1, 200}}});
  Values expected;
  for (const double v : x) expected.push_back(GeluByItsFormula(v));
  ExpectClose(RunKernel(spec, {x})[0], expected, {1e-13, 1e-15}, "reference");
}

TEST(GeluErf, IsItsFormula) {
  const Values x = RandomValues(200, 1, -6, 6);
  Values expected;
  for (const double v : x) expected.push_back(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
  ExpectClose(RunKernel(MakeSpec("gelu_erf", {{DType::kFloat64, {1, 200}}}), {x})[0], expected, {1e-13, 1e-15}, "erf");
}

TEST(GeluErf, IsNearRoundingInFloat32) {
  Values x;
  for (int i = -2600; i <= 2600; ++i) x.push_back(Stored(i / 200.0, DType::kFloat32));
  const TensorType type{DType::kFloat32, {1, static_cast<int64_t>(x.size())}};
  const Values fast = RunKernel(MakeSpec("gelu_erf", {type}), {x}, {.kind = KernelKind::kCpu})[0];
  const Values slope =
      RunKernel(MakeSpec("gelu_erf_gradient", {type, type}), {x, Values(x.size(), 1.0)}, {.kind = KernelKind::kCpu})[0];
  for (size_t i = 0; i < x.size(); ++i) {
    const double phi = std::erfc(-x[i] / std::sqrt(2.0)) / 2;
    EXPECT_NEAR(fast[i], x[i] * phi, 5e-7 * std::abs(x[i] * phi)) << x[i];  // in the tail too
    EXPECT_NEAR(slope[i], phi + x[i] * std::exp(-x[i] * x[i] / 2) / std::sqrt(2 * M_PI), 2e-7) << x[i];
    if (x[i] != 0) {
      // The erf that was used: 1e-7, and as much for the rounding of its product with x.
      EXPECT_NEAR(2 * fast[i] / x[i] - 1, std::erf(x[i] / std::sqrt(2.0)), 2e-7) << x[i];
    }
  }
}

TEST(Gelu, IsNearRoundingInFloat32) {
  Values x;
  for (int i = -1200; i <= 1200; ++i) x.push_back(Stored(i / 200.0, DType::kFloat32));
  const auto count = static_cast<int64_t>(x.size());
  const Values exact = RunKernel(MakeSpec("gelu", {{DType::kFloat64, {1, count}}}), {x})[0];
  const Values fast = RunKernel(MakeSpec("gelu", {{DType::kFloat32, {1, count}}}), {x}, {.kind = KernelKind::kCpu})[0];
  ExpectClose(fast, exact, {1e-5, 0}, "relative, where the function is small too");
  ExpectClose(fast, exact, {2.5e-7, 1e-7}, "near rounding");
}

TEST(Gelu, ReachesItsLimits) {
  const Values x = {kInfinity, -kInfinity, std::nan(""), 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 3e38, -3e38, 1e13, -20};
  const auto count = static_cast<int64_t>(x.size());
  const TensorType type{DType::kFloat32, {1, count}};
  for (const KernelKind kind : kKernelKinds) {
    for (const std::string form : {"gelu", "gelu_erf"}) {
      const Values g = RunKernel(MakeSpec(form, {type}), {x}, {.kind = kind})[0];
      ExpectClose(g, {kInfinity, 0, std::nan(""), 0, 0, 5e-41, -5e-41, 1e30, 0, 3e38, 0, 1e13, 0}, {1e-6, 2e-45},
                  "gelu");
      EXPECT_TRUE(std::signbit(g[4]));
      const Values slope =
          RunKernel(MakeSpec(form + "_gradient", {type, type}), {x, Values(x.size(), 1.0)}, {.kind = kind})[0];
      ExpectClose(slope, {1, 0, std::nan(""), 0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0, 1, 0}, {1e-6, 1e-30}, "slope");
    }
  }
}

void ExpectFastAgrees(const std::string& form, DType dtype, int64_t rows, int64_t width) {
  const TensorType h{dtype, {rows, width}};
  const TensorType b{dtype, {width}};
  const Values x = RandomValues(rows * width, 1, -5, 5);
  const Values bias = RandomValues(width, 2);
  const Values dg = RandomValues(rows * width, 3);
  ExpectKernelsAgree(MakeSpec(form, {h}), {x}, ToleranceOf(dtype));
  ExpectKernelsAgree(MakeSpec("bias_" + form, {h, b}), {x, bias}, ToleranceOf(dtype));
  ExpectKernelsAgree(MakeSpec(form + "_gradient", {h, h}), {x, dg}, ToleranceOf(dtype));
  ExpectKernelsAgree(MakeSpec("bias_" + form + "_gradient", {h, b, h}), {x, bias, dg},
                     {ToleranceOf(dtype).relative, 1e-5}, {.accumulated = 2});
}

TEST(BiasGelu, FastAgreesWithReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 37, 130}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        ExpectFastAgrees("gelu", dtype, rows, width);
        ExpectFastAgrees("gelu_erf", dtype, rows, width);
      }
    }
  }
}

// A thousand times 2^-9 beside 1 vanishes in a sum kept in bfloat16.
TEST(BiasGeluGradient, SumsInFloat32) {
  const int64_t rows = 1025;
  Values dg(static_cast<size_t>(rows), 0x1p-9);
  dg[0] = 1;
  const TensorType h{DType::kBFloat16, {rows, 1}};
  for (const KernelKind kind : kKernelKinds) {
    const Values db = RunKernel(MakeSpec("bias_gelu_gradient", {h, {DType::kBFloat16, {1}}, h}),
                                {Values(static_cast<size_t>(rows), 0.0), {0.0}, dg}, {.kind = kind})[1];
    EXPECT_EQ(db[0], 1.5);  // the slope at 0 is 1/2
  }
}

}  // namespace
}  // namespace reprise::testing
