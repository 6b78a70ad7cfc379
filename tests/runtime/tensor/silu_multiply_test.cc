#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tolerance ToleranceOf(DType dtype) {
  return dtype == DType::kBFloat16 ? Tolerance{0x1p-7, 1e-6} : Tolerance{1e-6, 1e-7};
}

TEST(SiluMultiply, IsItsFormula) {
  const Values gate = RandomValues(200, 1, -20, 20);
  const Values up = RandomValues(200, 2, -3, 3);
  const TensorType type{DType::kFloat64, {2, 100}};
  Values expected;
  for (size_t i = 0; i < gate.size(); ++i) expected.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  ExpectClose(RunKernel(MakeSpec("silu_multiply", {type, type}), {gate, up})[0], expected, {1e-14}, "reference");
}

TEST(SiluMultiply, IsNearRoundingInFloat32) {
  Values gate;
  for (int i = -16000; i <= 16000; ++i) gate.push_back(Stored(i / 200.0, DType::kFloat32));
  const auto count = static_cast<int64_t>(gate.size());
  const Values ones(gate.size(), 1.0);
  const auto run = [&](DType dtype, KernelKind kind) {
    const TensorType type{dtype, {1, count}};
    return RunKernel(MakeSpec("silu_multiply", {type, type}), {gate, ones}, {.kind = kind})[0];
  };
  ExpectClose(run(DType::kFloat32, KernelKind::kCpu), run(DType::kFloat64, KernelKind::kReference), {5e-7}, "silu");
}

TEST(SiluMultiply, ReachesItsLimits) {
  const Values gate = {kInfinity, -kInfinity, std::nan(""), 0.0, 1e-40, -1e-40, 1e30, -1e30, 3e38, -3e38, 120, -120};
  const TensorType type{DType::kFloat32, {1, static_cast<int64_t>(gate.size())}};
  const Values ones(gate.size(), 1.0);
  for (const KernelKind kind : kKernelKinds) {
    const Values y = RunKernel(MakeSpec("silu_multiply", {type, type}), {gate, ones}, {.kind = kind})[0];
    const Values silu = {kInfinity, 0, std::nan(""), 0, 5e-41, -5e-41, 1e30, 0, 3e38, 0, 120, 0};
    ExpectClose(y, silu, {1e-6, 2e-45}, "silu");
    const auto gradients =
        RunKernel(MakeSpec("silu_multiply_gradient", {type, type, type}), {gate, ones, ones}, {.kind = kind});
    ExpectClose(gradients[0], {1, 0, std::nan(""), 0.5, 0.5, 0.5, 1, 0, 1, 0, 1, 0}, {1e-6, 1e-30}, "slope");
    ExpectClose(gradients[1], silu, {1e-6, 2e-45}, "dup");
  }
}

TEST(SiluMultiply, FastAgreesWithReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 37, 130}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        const TensorType type{dtype, {rows, width}};
        const Values gate = RandomValues(rows * width, 1, -8, 8);
        const Values up = RandomValues(rows * width, 2, -2, 2);
        const Values dy = RandomValues(rows * width, 3);
        ExpectKernelsAgree(MakeSpec("silu_multiply", {type, type}), {gate, up}, ToleranceOf(dtype));
        ExpectKernelsAgree(MakeSpec("silu_multiply_gradient", {type, type, type}), {gate, up, dy}, ToleranceOf(dtype));
      }
    }
  }
}

TEST(SiluMultiplyGradient, MatchesFiniteDifferences) {
  const TensorType type{DType::kFloat64, {4, 3}};
  const KernelSpec backward = MakeSpec("silu_multiply_gradient", {type, type, type});
  ExpectGradientMatchesFiniteDifferences(MakeSpec("silu_multiply", {type, type}),
                                         {RandomValues(12, 1, -4, 4), RandomValues(12, 2)}, {0, 1},
                                         [&](const auto& in, const auto&, const auto& d) {
                                           return RunKernel(backward, {in[0], in[1], d[0]});
                                         });
}

}  // namespace
}  // namespace reprise::testing
