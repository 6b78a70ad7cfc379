#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "runtime/tensor/operation.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

struct Case {
  int64_t sequences = 1;
  int64_t length = 1;
  int64_t heads = 1;
  int64_t size = 1;
  int causal = 1;
  double dropout = 0;

  int64_t rows() const { return sequences * length; }
  int64_t columns() const { return heads * size; }
  Attributes attributes() const {
    return Attributes()
        .Set("heads", heads)
        .Set("sequence_length", length)
        .Set("causal", causal)
        .Set("dropout", dropout)
        .Set("salt", 3);
  }
  KernelSpec Forward(DType dtype) const {
    return MakeSpec("attention", {{dtype, {rows(), 3 * columns()}}}, attributes());
  }
  KernelSpec Gradient(DType dtype) const {
    const KernelSpec forward = Forward(dtype);
    return MakeSpec("attention_gradient",
                    {forward.inputs[0], forward.outputs[0], forward.outputs[1], forward.outputs[0]}, attributes());
  }
};

const KernelRun kRun = {.step = {.seed = 7, .step = 11}, .block = 2, .first_sequence = 5};

Values StoredValues(int64_t count, uint64_t seed, DType dtype) {
  Values values = RandomValues(count, seed, -2, 2);
  for (double& value : values) value = Stored(value, dtype);
  return values;
}

// Forward and gradient of the fast kernels against the reference's.
void ExpectFastAgrees(const Case& c, DType dtype) {
  const Tolerance tolerance = dtype == DType::kBFloat16 ? Tolerance{.relative = 1.0 / 128, .absolute = 1e-4}
                                                        : Tolerance{.relative = 1e-5, .absolute = 2e-5};
  const AgreeOptions options = {.run = kRun};
  const Values qkv = StoredValues(c.rows() * 3 * c.columns(), 1, dtype);
  ExpectKernelsAgree(c.Forward(dtype), {qkv}, tolerance, options);
  const std::vector<Values> outputs = RunKernel(c.Forward(dtype), {qkv}, kRun);
  const Values d_o = StoredValues(c.rows() * c.columns(), 2, dtype);
  ExpectKernelsAgree(c.Gradient(dtype), {qkv, outputs[0], outputs[1], d_o}, tolerance, options);
}

TEST(AttentionTest, FirstRowSeesOnlyItself) {
  const Case c = {.sequences = 2, .length = 3, .heads = 2, .size = 2};
  const Values qkv = StoredValues(c.rows() * 12, 1, DType::kFloat32);
  for (const KernelKind kind : {KernelKind::kReference, KernelKind::kCpu}) {
    const Values o = RunKernel(c.Forward(DType::kFloat32), {qkv}, {.kind = kind})[0];
    for (size_t sequence = 0; sequence < 2; ++sequence) {
      for (size_t column = 0; column < 4; ++column) {
        EXPECT_EQ(o[sequence * 12 + column], qkv[sequence * 36 + 8 + column]);
      }
    }
  }
}

TEST(AttentionTest, EqualKeysGiveTheMeanOfValues) {
  const Case c = {.length = 65, .size = 1, .causal = 0};
  Values qkv;
  double sum = 0;
  for (int i = 0; i < 65; ++i) {
    qkv.insert(qkv.end(), {0.5, 2.0, static_cast<double>(i)});
    sum += i;
  }
  for (const KernelKind kind : {KernelKind::kReference, KernelKind::kCpu}) {
    const std::vector<Values> outputs = RunKernel(c.Forward(DType::kFloat32), {qkv}, {.kind = kind});
    ExpectClose(outputs[0], Values(65, sum / 65), {.relative = 1e-6}, "o");
    ExpectClose(outputs[1], Values(65, 1 + std::log(65.0)), {.relative = 1e-6}, "lse");
  }
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  const Case c = {.length = 2, .size = 1, .causal = 0};
  for (const KernelKind kind : {KernelKind::kReference, KernelKind::kCpu}) {
    const Values o = RunKernel(c.Forward(DType::kFloat32), {{1e3, 1e3, 1, 1e3, -1e3, 2}}, {.kind = kind})[0];
    EXPECT_EQ(o, (Values{1, 1}));
  }
}

TEST(AttentionTest, OutputTypesAndFlops) {
  const Case c = {.sequences = 2, .length = 8, .heads = 3, .size = 4};
  const KernelSpec forward = c.Forward(DType::kBFloat16);
  EXPECT_EQ(forward.outputs[0], (TensorType{DType::kBFloat16, {16, 12}}));
  EXPECT_EQ(forward.outputs[1], (TensorType{DType::kFloat32, {48}}));
  const int64_t flops = 4 * 16 * 8 * 12;
  EXPECT_EQ(GetOperation("attention").flops(forward.inputs, c.attributes()), flops / 2);
  EXPECT_EQ(GetOperation("attention_gradient").flops(c.Gradient(DType::kBFloat16).inputs, c.attributes()),
            flops / 4 * 5);
}

TEST(AttentionDeathTest, PartOfASequenceIsRefused) {
  const Attributes attributes = Case{.length = 4, .heads = 1}.attributes();
  EXPECT_DEATH(GetOperation("attention").infer({{DType::kFloat32, {6, 3}}}, attributes), "whole number of sequences");
}

TEST(AttentionTest, GradientMatchesFiniteDifferences) {
  for (const int causal : {0, 1}) {
    for (const double dropout : {0.0, 0.4}) {
      const Case c = {.sequences = 2, .length = 5, .heads = 2, .size = 3, .causal = causal, .dropout = dropout};
      const auto gradient = [&](const std::vector<Values>& inputs, const std::vector<Values>& outputs,
                                const std::vector<Values>& output_gradients) {
        return RunKernel(c.Gradient(DType::kFloat64), {inputs[0], outputs[0], outputs[1], output_gradients[0]}, kRun);
      };
      ExpectGradientMatchesFiniteDifferences(c.Forward(DType::kFloat64), {RandomValues(c.rows() * 3 * c.columns(), 1)},
                                             {0}, gradient, {.run = kRun});
    }
  }
}

TEST(AttentionTest, DropoutKeepsTheShareAsked) {
  const Case c = {.sequences = 4, .length = 64, .size = 1, .causal = 0, .dropout = 0.25};
  // Equal scores, and value 64: each output is the number of kept keys / (1 - p).
  Values qkv;
  for (int64_t i = 0; i < c.rows(); ++i) qkv.insert(qkv.end(), {0, 0, 64});
  for (const KernelKind kind : {KernelKind::kReference, KernelKind::kCpu}) {
    KernelRun run = kRun;
    run.kind = kind;
    const Values o = RunKernel(c.Forward(DType::kFloat32), {qkv}, run)[0];
    double kept = 0;
    for (const double value : o) kept += value * 0.75;
    EXPECT_NEAR(kept / (256 * 64), 0.75, 0.02);  // 6 standard deviations
  }
}

using Sizes = std::tuple<int64_t, int64_t, int64_t, int>;
class AttentionSizes : public ::testing::TestWithParam<Sizes> {};

TEST_P(AttentionSizes, FastAgreesWithReference) {
  const auto [length, heads, size, causal] = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ExpectFastAgrees({.sequences = 2, .length = length, .heads = heads, .size = size, .causal = causal}, dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AttentionSizes,
                         ::testing::Combine(::testing::Values(1, 2, 17, 65), ::testing::Values(1, 3),
                                            ::testing::Values(1, 5, 12, 32, 64), ::testing::Values(0, 1)));

TEST(AttentionTest, FastAgreesOverManyTiles) {
  ExpectFastAgrees({.length = 257, .heads = 2, .size = 20}, DType::kFloat32);
  ExpectFastAgrees({.length = 257, .heads = 2, .size = 20, .causal = 0}, DType::kBFloat16);
}

TEST(AttentionTest, FastDrawsTheSameMask) {
  for (const int causal : {0, 1}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectFastAgrees({.sequences = 2, .length = 65, .heads = 3, .size = 5, .causal = causal, .dropout = 0.1}, dtype);
      ExpectFastAgrees({.length = 130, .heads = 1, .size = 12, .causal = causal, .dropout = 0.1}, dtype);
    }
  }
}

}  // namespace
}  // namespace reprise::testing
