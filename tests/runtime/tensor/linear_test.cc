#include <gtest/gtest.h>

#include <tuple>

#include "runtime/tensor/operation.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

Attributes Transposed(int transposed) { return Attributes().Set("transposed", transposed); }

Shape WeightShape(int64_t in, int64_t out, int transposed) { return transposed != 0 ? Shape{out, in} : Shape{in, out}; }

// One rounding to bfloat16 is half of 2^-7; float32 sums differ by their order.
Tolerance ToleranceFor(DType dtype) {
  return dtype == DType::kBFloat16 ? Tolerance{.relative = 1.0 / 128, .absolute = 2e-5}
                                   : Tolerance{.relative = 1e-5, .absolute = 2e-5};
}

Values StoredValues(int64_t count, uint64_t seed, DType dtype) {
  Values values = RandomValues(count, seed);
  for (double& value : values) value = Stored(value, dtype);
  return values;
}

TEST(LinearTest, WeightOfGpt2IsStoredInOut) {
  const KernelSpec spec = MakeSpec("linear", {{DType::kFloat32, {1, 2}}, {DType::kFloat32, {2, 2}}}, Transposed(0));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{1, 0}, {0, 1, 0, 0}}, {.kind = kind})[0], (Values{0, 1}));
  }
}

TEST(LinearTest, TransposedWeightIsStoredOutIn) {
  const KernelSpec spec =
      MakeSpec("linear", {{DType::kFloat32, {1, 2}}, {DType::kFloat32, {3, 2}}, {DType::kFloat32, {3}}}, Transposed(1));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{1, 10}, {1, 2, 3, 4, 5, 6}, {100, 200, 300}}, {.kind = kind})[0],
              (Values{121, 243, 365}));
  }
}

TEST(LinearTest, OutputTypesAndFlops) {
  const OperationTypes types = {{DType::kBFloat16, {2, 5, 3}}, {DType::kBFloat16, {3, 7}}};
  const Operation& linear = GetOperation("linear");
  EXPECT_EQ(linear.infer(types, Transposed(0))[0], (TensorType{DType::kBFloat16, {2, 5, 7}}));
  EXPECT_EQ(linear.flops(types, Transposed(0)), 2 * 10 * 3 * 7);
  const Operation& dw = GetOperation("linear_weight_gradient");
  const OperationTypes activations = {{DType::kBFloat16, {10, 3}}, {DType::kBFloat16, {10, 7}}};
  EXPECT_EQ(dw.infer(activations, Transposed(0))[0], (TensorType{DType::kFloat32, {3, 7}}));
  EXPECT_EQ(dw.infer(activations, Transposed(1))[0], (TensorType{DType::kFloat32, {7, 3}}));
  EXPECT_EQ(dw.flops(activations, Transposed(1)), 2 * 10 * 3 * 7);
}

TEST(LinearDeathTest, WeightThatDoesNotFitIsNamed) {
  const OperationTypes types = {{DType::kFloat32, {5, 3}}, {DType::kFloat32, {4, 7}}};
  EXPECT_DEATH(GetOperation("linear").infer(types, Transposed(0)), "linear: f32\\[5, 3\\] does not fit");
}

TEST(LinearTest, GradientsMatchFiniteDifferences) {
  for (const int transposed : {0, 1}) {
    const int64_t rows = 3;
    const int64_t in = 4;
    const int64_t out = 5;
    const TensorType x{DType::kFloat64, {rows, in}};
    const TensorType w{DType::kFloat64, WeightShape(in, out, transposed)};
    const TensorType dy{DType::kFloat64, {rows, out}};
    const auto gradient = [&](const std::vector<Values>& inputs, const std::vector<Values>&,
                              const std::vector<Values>& output_gradients) {
      const Attributes attributes = Transposed(transposed);
      const Values dx =
          RunKernel(MakeSpec("linear_input_gradient", {dy, w}, attributes), {output_gradients[0], inputs[1]})[0];
      const Values dw =
          RunKernel(MakeSpec("linear_weight_gradient", {x, dy}, attributes), {inputs[0], output_gradients[0]})[0];
      return std::vector<Values>{dx, dw};
    };
    ExpectGradientMatchesFiniteDifferences(MakeSpec("linear", {x, w}, Transposed(transposed)),
                                           {RandomValues(rows * in, 1), RandomValues(in * out, 2)}, {0, 1}, gradient);
  }
}

class LinearSizes : public ::testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

TEST_P(LinearSizes, FastAgreesWithReference) {
  const auto [rows, in, out] = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Values x = StoredValues(rows * in, 1, dtype);
    const Values w = StoredValues(in * out, 2, dtype);
    const Values bias = StoredValues(out, 3, dtype);
    const Values dy = StoredValues(rows * out, 4, dtype);
    const TensorType x_type{dtype, {rows, in}};
    const TensorType dy_type{dtype, {rows, out}};
    for (const int transposed : {0, 1}) {
      const TensorType w_type{dtype, WeightShape(in, out, transposed)};
      const Attributes attributes = Transposed(transposed);
      const AgreeOptions options = {.same_bits_for_all_threads = false};
      const Tolerance tolerance = ToleranceFor(dtype);
      ExpectKernelsAgree(MakeSpec("linear", {x_type, w_type}, attributes), {x, w}, tolerance, options);
      ExpectKernelsAgree(MakeSpec("linear", {x_type, w_type, {dtype, {out}}}, attributes), {x, w, bias}, tolerance,
                         options);
      ExpectKernelsAgree(MakeSpec("linear_input_gradient", {dy_type, w_type}, attributes), {dy, w}, tolerance, options);
      ExpectKernelsAgree(MakeSpec("linear_weight_gradient", {x_type, dy_type}, attributes), {x, dy},
                         ToleranceFor(DType::kFloat32), options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, LinearSizes,
                         ::testing::Values(std::make_tuple(1, 1, 1), std::make_tuple(1, 5, 7), std::make_tuple(3, 5, 7),
                                           std::make_tuple(33, 17, 1), std::make_tuple(5, 1, 33),
                                           std::make_tuple(33, 257, 65), std::make_tuple(257, 33, 129)));

// Where bfloat16 is widened block by block, these have several blocks in each direction.
INSTANTIATE_TEST_SUITE_P(ManyBlocks, LinearSizes,
                         ::testing::Values(std::make_tuple(1030, 3, 5), std::make_tuple(800, 3, 1030),
                                           std::make_tuple(2, 1030, 3)));

TEST(LinearTest, WeightGradientIsAddedWhereAsked) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int transposed : {0, 1}) {
      const KernelSpec spec =
          MakeSpec("linear_weight_gradient", {{dtype, {65, 12}}, {dtype, {65, 33}}}, Transposed(transposed));
      const Values x = StoredValues(65 * 12, 1, dtype);
      const Values dy = StoredValues(65 * 33, 2, dtype);
      const Values before = StoredValues(12 * 33, 3, DType::kFloat32);
      const KernelRun fast = {.kind = KernelKind::kCpu, .threads = 2, .accumulate = 1, .before = {before}};
      const KernelRun plain = {.accumulate = 1, .before = {before}};
      ExpectClose(RunKernel(spec, {x, dy}, fast)[0], RunKernel(spec, {x, dy}, plain)[0], ToleranceFor(DType::kFloat32),
                  spec.ToString());
    }
  }
}

}  // namespace
}  // namespace reprise::testing
