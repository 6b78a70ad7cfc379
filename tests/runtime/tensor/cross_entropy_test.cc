#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "runtime/tensor/operation.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr double kNotCounted = -100;

KernelSpec Spec(DType dtype, int64_t rows, int64_t columns, int64_t vocabulary, int gradients) {
  return MakeSpec("linear_cross_entropy",
                  {{dtype, {rows, columns}}, {dtype, {vocabulary, columns}}, {DType::kInt32, {rows}}},
                  Attributes().Set("gradients", gradients));
}

KernelSpec BiasedSpec(DType dtype, int64_t rows, int64_t columns, int64_t vocabulary, int gradients) {
  return MakeSpec(
      "linear_cross_entropy",
      {{dtype, {rows, columns}}, {dtype, {vocabulary, columns}}, {DType::kInt32, {rows}}, {dtype, {vocabulary}}},
      Attributes().Set("gradients", gradients));
}

Values StoredValues(int64_t count, uint64_t seed, DType dtype) {
  Values values = RandomValues(count, seed);
  for (double& value : values) value = Stored(value, dtype);
  return values;
}

// Random labels, every third one not counted.
Values Labels(int64_t rows, int64_t vocabulary) {
  Values labels = RandomIntegers(rows, 5, vocabulary);
  for (size_t i = 1; i < labels.size(); i += 3) labels[i] = kNotCounted;
  return labels;
}

TEST(CrossEntropyTest, ZeroWeightsGiveAQuarterEach) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const std::vector<Values> outputs = RunKernel(Spec(dtype, 1, 1, 4, 1), {{1}, {0, 0, 0, 0}, {2}}, {.kind = kind});
      EXPECT_NEAR(outputs[0][0], std::log(4.0), 1e-7);
      EXPECT_EQ(outputs[1], (Values{0}));
      EXPECT_EQ(outputs[2], (Values{0.25, 0.25, -0.75, 0.25}));
    }
  }
}

TEST(CrossEntropyTest, ZeroWeightsOfGpt2sVocabulary) {
  const int64_t vocabulary = 50257;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const Values loss = RunKernel(Spec(dtype, 2, 3, vocabulary, 0),
                                    {{1, 2, 3, 4, 5, 6}, Values(vocabulary * 3, 0.0), {0, 50256}}, {.kind = kind})[0];
      EXPECT_NEAR(loss[0] / 2, 10.824905, 1e-6);
    }
  }
}

TEST(CrossEntropyTest, NothingCountedGivesZero) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const std::vector<Values> outputs =
          RunKernel(Spec(dtype, 3, 5, 7, 1),
                    {StoredValues(15, 1, dtype), StoredValues(35, 2, dtype), {kNotCounted, kNotCounted, kNotCounted}},
                    {.kind = kind});
      EXPECT_EQ(outputs[0], (Values{0}));
      EXPECT_EQ(outputs[1], Values(15, 0.0));
      EXPECT_EQ(outputs[2], Values(35, 0.0));
    }
  }
}

TEST(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  for (const KernelKind kind : kKernelKinds) {
    const std::vector<Values> outputs =
        RunKernel(Spec(DType::kFloat32, 2, 1, 2, 1), {{1e4, -1e4}, {1, -1}, {0, 0}}, {.kind = kind});
    EXPECT_EQ(outputs[0], (Values{2e4}));
    EXPECT_EQ(outputs[1], (Values{0, -2}));
  }
}

TEST(CrossEntropyTest, NotANumberIsSeen) {
  const double nan = std::nan("");
  for (const KernelKind kind : kKernelKinds) {
    Values w(33, 0.5);
    w[17] = nan;
    EXPECT_TRUE(std::isnan(RunKernel(Spec(DType::kFloat32, 1, 1, 33, 0), {{1}, w, {3}}, {.kind = kind})[0][0]));
    EXPECT_TRUE(
        std::isnan(RunKernel(Spec(DType::kFloat32, 1, 1, 33, 0), {{nan}, Values(33, 0.5), {3}}, {.kind = kind})[0][0]));
  }
}

TEST(CrossEntropyTest, GradientsMatchFiniteDifferences) {
  const int64_t rows = 4;
  const int64_t columns = 3;
  const int64_t vocabulary = 6;
  const Values labels = Labels(rows, vocabulary);
  const std::vector<Values> gradients =
      RunKernel(Spec(DType::kFloat64, rows, columns, vocabulary, 1),
                {RandomValues(rows * columns, 1), RandomValues(vocabulary * columns, 2), labels});
  const auto gradient = [&](const std::vector<Values>&, const std::vector<Values>&,
                            const std::vector<Values>& output_gradients) {
    std::vector<Values> scaled = {gradients[1], gradients[2]};
    for (Values& values : scaled) {
      for (double& value : values) value *= output_gradients[0][0];
    }
    return scaled;
  };
  ExpectGradientMatchesFiniteDifferences(
      Spec(DType::kFloat64, rows, columns, vocabulary, 0),
      {RandomValues(rows * columns, 1), RandomValues(vocabulary * columns, 2), labels}, {0, 1}, gradient);
}

TEST(CrossEntropyTest, FastAgreesWithReference) {
  const int64_t sizes[][3] = {{1, 1, 1}, {1, 5, 7}, {3, 5, 7}, {33, 12, 257}, {65, 33, 65}, {700, 5, 33}};
  for (const auto& [rows, columns, vocabulary] : sizes) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const Values y = StoredValues(rows * columns, 1, dtype);
      const Values w = StoredValues(vocabulary * columns, 2, dtype);
      // Gradients of logits are rounded to bfloat16: a last bit that falls the other way is 2^-8 of an element.
      const Tolerance tolerance = dtype == DType::kBFloat16 ? Tolerance{.relative = 1.0 / 128, .absolute = 2e-3}
                                                            : Tolerance{.relative = 1e-5, .absolute = 2e-5};
      for (const int gradients : {0, 1}) {
        ExpectKernelsAgree(Spec(dtype, rows, columns, vocabulary, gradients), {y, w, Labels(rows, vocabulary)},
                           tolerance, {.same_bits_for_all_threads = false});
      }
    }
  }
}

TEST(CrossEntropyTest, WeightGradientAndLossAreAddedWhereAsked) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const KernelSpec spec = Spec(dtype, 600, 3, 5, 1);
    const std::vector<Values> inputs = {StoredValues(1800, 1, dtype), StoredValues(15, 2, dtype), Labels(600, 5)};
    const std::vector<Values> before = {{2.5}, Values(1800, 0.0), RandomValues(15, 3)};
    const KernelRun plain = {.accumulate = 0b101, .before = before};
    const KernelRun fast = {.kind = KernelKind::kCpu, .threads = 2, .accumulate = 0b101, .before = before};
    const std::vector<Values> expected = RunKernel(spec, inputs, plain);
    const std::vector<Values> actual = RunKernel(spec, inputs, fast);
    const Tolerance tolerance = {.relative = 1e-5, .absolute = dtype == DType::kBFloat16 ? 2e-3 : 2e-5};
    ExpectClose(actual[0], expected[0], tolerance, "loss");
    ExpectClose(actual[2], expected[2], tolerance, "dw");
  }
}

// One row of class 0 and one of class 2: the bias's gradient is what each class has too much.
TEST(CrossEntropyTest, BiasOfAnEvenGuess) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const std::vector<Values> outputs = RunKernel(
          BiasedSpec(dtype, 3, 1, 4, 1), {{0, 0, 0}, {0, 0, 0, 0}, {0, kNotCounted, 2}, {3, 3, 3, 3}}, {.kind = kind});
      EXPECT_NEAR(outputs[0][0], 2 * std::log(4.0), 1e-6);
      EXPECT_EQ(outputs[2], (Values{0, 0, 0, 0}));
      EXPECT_EQ(outputs[3], (Values{-0.5, 0.5, -0.5, 0.5}));
    }
  }
}

TEST(CrossEntropyTest, GradientsWithABiasMatchFiniteDifferences) {
  const std::vector<Values> inputs = {RandomValues(12, 1), RandomValues(18, 2), Labels(4, 6), RandomValues(6, 3)};
  const std::vector<Values> gradients = RunKernel(BiasedSpec(DType::kFloat64, 4, 3, 6, 1), inputs);
  const auto gradient = [&](const std::vector<Values>&, const std::vector<Values>&,
                            const std::vector<Values>& output_gradients) {
    std::vector<Values> scaled = {gradients[1], gradients[2], gradients[3]};
    for (Values& values : scaled) {
      for (double& value : values) value *= output_gradients[0][0];
    }
    return scaled;
  };
  ExpectGradientMatchesFiniteDifferences(BiasedSpec(DType::kFloat64, 4, 3, 6, 0), inputs, {0, 1, 3}, gradient);
}

TEST(CrossEntropyTest, FastAgreesWithReferenceWithABias) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 12, 257}, {700, 5, 33}};
  for (const auto& [rows, columns, vocabulary] : sizes) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      // As without one; its own gradient adds up the last bits of all rows.
      const Tolerance tolerance = dtype == DType::kBFloat16 ? Tolerance{.relative = 1.0 / 128, .absolute = 4e-3}
                                                            : Tolerance{.relative = 1e-5, .absolute = 2e-5};
      const std::vector<Values> inputs = {StoredValues(rows * columns, 1, dtype),
                                          StoredValues(vocabulary * columns, 2, dtype), Labels(rows, vocabulary),
                                          StoredValues(vocabulary, 3, dtype)};
      for (const int gradients : {0, 1}) {
        ExpectKernelsAgree(BiasedSpec(dtype, rows, columns, vocabulary, gradients), inputs, tolerance,
                           {.same_bits_for_all_threads = false});
      }
      const std::vector<Values> before = {
          {2.5}, Values(rows * columns, 0.0), RandomValues(vocabulary * columns, 3), RandomValues(vocabulary, 4)};
      const KernelSpec spec = BiasedSpec(dtype, rows, columns, vocabulary, 1);
      const auto run = [&](KernelKind kind) {
        return RunKernel(
            spec, inputs,
            {.kind = kind, .threads = std::min(2, omp_get_thread_limit()), .accumulate = 0b1101, .before = before})[3];
      };
      ExpectClose(run(KernelKind::kCpu), run(KernelKind::kReference), tolerance, "added bias gradient");
    }
  }
}

TEST(CrossEntropyTest, OutputTypesAndFlops) {
  const KernelSpec spec = Spec(DType::kBFloat16, 6, 4, 9, 1);
  EXPECT_EQ(spec.outputs[0], (TensorType{DType::kFloat64, {1}}));
  EXPECT_EQ(spec.outputs[1], (TensorType{DType::kBFloat16, {6, 4}}));
  EXPECT_EQ(spec.outputs[2], (TensorType{DType::kFloat32, {9, 4}}));
  EXPECT_EQ(Spec(DType::kBFloat16, 6, 4, 9, 0).outputs.size(), 1);
  const Operation& operation = GetOperation("linear_cross_entropy");
  EXPECT_EQ(operation.flops(spec.inputs, Attributes().Set("gradients", 0)), 2 * 6 * 4 * 9);
  EXPECT_EQ(operation.flops(spec.inputs, Attributes().Set("gradients", 1)), 3 * 2 * 6 * 4 * 9);
}

}  // namespace
}  // namespace reprise::testing
