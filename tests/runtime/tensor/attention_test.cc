#include <gtest/gtest.h>

#include <cmath>
#include <string>
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
  int64_t key_value_heads = 0;  // 0: q, k and v packed
  int64_t document = 0;         // rows of each; the last of a sequence is shorter. 0: they are not told apart

  int64_t rows() const { return sequences * length; }
  int64_t columns() const { return heads * size; }
  Attributes attributes() const {
    Attributes attributes = Attributes()
                                .Set("heads", heads)
                                .Set("sequence_length", length)
                                .Set("causal", causal)
                                .Set("dropout", dropout)
                                .Set("salt", 3);
    if (document > 0) attributes.Set("documents", 1);
    return key_value_heads == 0 ? attributes : attributes.Set("key_value_heads", key_value_heads);
  }
  KernelSpec Forward(DType dtype) const {
    std::vector<TensorType> inputs = {{dtype, {rows(), 3 * columns()}}};
    const TensorType key{dtype, {rows(), key_value_heads * size}};
    if (key_value_heads > 0) inputs = {{dtype, {rows(), columns()}}, key, key};
    if (document > 0) inputs.push_back({DType::kInt32, {rows()}});
    return MakeSpec("attention", inputs, attributes());
  }
  KernelSpec Gradient(DType dtype) const {
    const KernelSpec forward = Forward(dtype);
    std::vector<TensorType> inputs = forward.inputs;
    inputs.insert(inputs.end(), {forward.outputs[0], forward.outputs[1], forward.outputs[0]});
    return MakeSpec("attention_gradient", inputs, attributes());
  }
};

const KernelRun kRun = {.step = {.seed = 7, .step = 11}, .block = 2, .first_sequence = 5};

Values StoredValues(int64_t count, uint64_t seed, DType dtype) {
  Values values = RandomValues(count, seed, -2, 2);
  for (double& value : values) value = Stored(value, dtype);
  return values;
}

// Where the document of each row begins.
Values StartsOf(const Case& c) {
  Values starts;
  for (int64_t row = 0; row < c.rows(); ++row) {
    starts.push_back(static_cast<double>(row % c.length / c.document * c.document));
  }
  return starts;
}

// qkv, or q, k and v; then document starts.
std::vector<Values> InputsOf(const Case& c, DType dtype) {
  std::vector<Values> inputs;
  for (const TensorType& type : c.Forward(dtype).inputs) {
    if (type.dtype == DType::kInt32) {
      inputs.push_back(StartsOf(c));
    } else {
      inputs.push_back(StoredValues(type.elements(), 1 + inputs.size(), dtype));
    }
  }
  return inputs;
}

// Forward and gradient of the fast kernels against the reference's; `cuda` is false where fibers take too long. A GPU's
// matrix unit rounds probabilities to bfloat16: how near its sums are is measured in cuda/attention_matrix_test.cc.
void ExpectFastAgrees(const Case& c, DType dtype, bool cuda = true) {
  const Tolerance tolerance = dtype == DType::kBFloat16 ? Tolerance{.relative = 1.0 / 128, .absolute = 1e-4}
                                                        : Tolerance{.relative = 1e-5, .absolute = 2e-5};
  AgreeOptions options = {.run = kRun, .cuda = cuda};
  if (dtype == DType::kBFloat16 && c.size % 8 == 0) options.cuda_tolerance = {1.0 / 64, 1.0 / 64};
  std::vector<Values> inputs = InputsOf(c, dtype);
  ExpectKernelsAgree(c.Forward(dtype), inputs, tolerance, options);
  const std::vector<Values> outputs = RunKernel(c.Forward(dtype), inputs, kRun);
  inputs.insert(inputs.end(), {outputs[0], outputs[1], StoredValues(c.rows() * c.columns(), 9, dtype)});
  ExpectKernelsAgree(c.Gradient(dtype), inputs, tolerance, options);
}

TEST(AttentionTest, FirstRowSeesOnlyItself) {
  const Case c = {.sequences = 2, .length = 3, .heads = 2, .size = 2};
  const Values qkv = StoredValues(c.rows() * 12, 1, DType::kFloat32);
  for (const KernelKind kind : kKernelKinds) {
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
  for (const KernelKind kind : kKernelKinds) {
    const std::vector<Values> outputs = RunKernel(c.Forward(DType::kFloat32), {qkv}, {.kind = kind});
    ExpectClose(outputs[0], Values(65, sum / 65), {.relative = 1e-6}, "o");
    ExpectClose(outputs[1], Values(65, 1 + std::log(65.0)), {.relative = 1e-6}, "lse");
  }
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  const Case c = {.length = 2, .size = 1, .causal = 0};
  for (const KernelKind kind : kKernelKinds) {
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

// A document of a sequence is what it would be as a sequence of its own.
TEST(AttentionTest, DocumentsAreSequences) {
  for (const int64_t key_value_heads : {0, 2}) {
    for (const int64_t document : {1, 6, 24, 48, 72, 144}) {
      const Case packed = {.sequences = 2,
                           .length = 144,
                           .heads = 4,
                           .size = 3,
                           .key_value_heads = key_value_heads,
                           .document = document};
      const Case apart = {
          .sequences = 288 / document, .length = document, .heads = 4, .size = 3, .key_value_heads = key_value_heads};
      for (const KernelKind kind : kKernelKinds) {
        if (kind == KernelKind::kCuda && document < 24)
          continue;  // a thousand blocks of a few rows take long on fibers
        std::vector<Values> inputs = InputsOf(apart, DType::kFloat32);
        std::vector<Values> with_starts = inputs;
        with_starts.push_back(StartsOf(packed));
        const std::vector<Values> expected = RunKernel(apart.Forward(DType::kFloat32), inputs, {.kind = kind});
        const std::vector<Values> actual = RunKernel(packed.Forward(DType::kFloat32), with_starts, {.kind = kind});
        ExpectClose(actual[0], expected[0], {1e-5, 1e-5}, "o");
        const Values d_o = StoredValues(288 * 12, 9, DType::kFloat32);
        inputs.insert(inputs.end(), {expected[0], expected[1], d_o});
        with_starts.insert(with_starts.end(), {actual[0], actual[1], d_o});
        const auto expected_gradients = RunKernel(apart.Gradient(DType::kFloat32), inputs, {.kind = kind});
        const auto gradients = RunKernel(packed.Gradient(DType::kFloat32), with_starts, {.kind = kind});
        ASSERT_EQ(gradients.size(), expected_gradients.size());
        for (size_t i = 0; i < gradients.size(); ++i) {
          ExpectClose(gradients[i], expected_gradients[i], {1e-4, 1e-5}, "gradient");
        }
      }
    }
  }
}

TEST(AttentionTest, FastDocumentsAgreeWithTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t document : {1, 7, 48, 50, 97}) {
      for (const int64_t key_value_heads : {0, 1}) {
        ExpectFastAgrees({.sequences = 2,
                          .length = 97,
                          .heads = 2,
                          .size = 5,
                          .dropout = 0.2,
                          .key_value_heads = key_value_heads,
                          .document = document},
                         dtype, document == 7 || document == 50);
      }
    }
  }
}

TEST(AttentionTest, DropoutKeepsTheShareAsked) {
  const Case c = {.sequences = 4, .length = 64, .size = 1, .causal = 0, .dropout = 0.25};
  // Equal scores, and value 64: each output is the number of kept keys / (1 - p).
  Values qkv;
  for (int64_t i = 0; i < c.rows(); ++i) qkv.insert(qkv.end(), {0, 0, 64});
  for (const KernelKind kind : kKernelKinds) {
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

// Beyond 64 features, and not a whole number of vectors.
TEST(AttentionTest, FastAgreesForLongHeads) {
  for (const int64_t size : {80, 97, 128}) {
    ExpectFastAgrees({.length = 35, .heads = 2, .size = size, .key_value_heads = 1}, DType::kBFloat16);
    ExpectFastAgrees({.length = 35, .heads = 1, .size = size, .causal = 0, .dropout = 0.1}, DType::kFloat32);
  }
}

TEST(AttentionTest, CudaRefusesHeadsAbove128) {
  if (std::size(kKernelKinds) < 3) GTEST_SKIP() << "needs the kernels of a GPU";
  const Case c = {.length = 3, .size = 129};
  const auto kernel = MakeKernel(c.Forward(DType::kFloat32), {.kind = KernelKind::kCuda});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(kernel.status().message().find("heads of 129"), std::string::npos) << kernel.status();
}

TEST(AttentionTest, FastDrawsTheSameMask) {
  for (const int causal : {0, 1}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ExpectFastAgrees({.sequences = 2, .length = 65, .heads = 3, .size = 5, .causal = causal, .dropout = 0.1}, dtype);
      ExpectFastAgrees({.length = 130, .heads = 1, .size = 12, .causal = causal, .dropout = 0.1}, dtype);
    }
  }
}

// ------------------------------------------------------------------------------------------- grouped query heads

// The packed form that computes the same as grouped q, k and v: each query head has a copy of the head that it reads.
Values Packed(const Case& c, const std::vector<Values>& inputs) {
  Values qkv;
  const int64_t group = c.heads / c.key_value_heads;
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (size_t part = 0; part < 3; ++part) {
      const int64_t heads = part == 0 ? c.heads : c.key_value_heads;
      for (int64_t head = 0; head < c.heads; ++head) {
        const int64_t first = (row * heads + (part == 0 ? head : head / group)) * c.size;
        qkv.insert(qkv.end(), inputs[part].begin() + first, inputs[part].begin() + first + c.size);
      }
    }
  }
  return qkv;
}

// Of one part of a packed gradient: the sum over the query heads of each group; `heads` are left.
Values Summed(const Case& c, const Values& dqkv, int64_t part, int64_t heads) {
  Values sums(static_cast<size_t>(c.rows() * heads * c.size));
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (int64_t head = 0; head < c.heads; ++head) {
      for (int64_t i = 0; i < c.size; ++i) {
        const int64_t to = (row * heads + head / (c.heads / heads)) * c.size + i;
        sums[static_cast<size_t>(to)] += dqkv[static_cast<size_t>((row * 3 + part) * c.columns() + head * c.size + i)];
      }
    }
  }
  return sums;
}

// Output and lse have the packed form's bits; gradients too where no two query heads share, else they are its sums.
void ExpectEqualsPacked(const Case& c, DType dtype, KernelKind kind) {
  Case packed = c;
  packed.key_value_heads = 0;
  KernelRun run = kRun;
  run.kind = kind;
  run.threads = 2;
  std::vector<Values> inputs = InputsOf(c, dtype);
  const Values qkv = Packed(c, inputs);
  const std::vector<Values> outputs = RunKernel(c.Forward(dtype), inputs, run);
  const std::vector<Values> expected = RunKernel(packed.Forward(dtype), {qkv}, run);
  EXPECT_TRUE(SameBits(outputs[0], expected[0]));
  EXPECT_TRUE(SameBits(outputs[1], expected[1]));
  const Values d_o = StoredValues(c.rows() * c.columns(), 9, dtype);
  inputs.insert(inputs.end(), {outputs[0], outputs[1], d_o});
  const std::vector<Values> gradients = RunKernel(c.Gradient(dtype), inputs, run);
  const Values dqkv = RunKernel(packed.Gradient(dtype), {qkv, outputs[0], outputs[1], d_o}, run)[0];
  EXPECT_TRUE(SameBits(gradients[0], Summed(c, dqkv, 0, c.heads)));
  for (const int64_t part : {1, 2}) {
    const Values sums = Summed(c, dqkv, part, c.key_value_heads);
    const Values& gradient = gradients[static_cast<size_t>(part)];
    if (c.heads == c.key_value_heads) {
      EXPECT_TRUE(SameBits(gradient, sums));
    }
    // A sum of packed gradients that are each rounded to bfloat16 is no nearer than that.
    ExpectClose(gradient, sums, dtype == DType::kBFloat16 ? Tolerance{0x1p-6, 0.03} : Tolerance{1e-5, 1e-5}, "dk, dv");
  }
}

TEST(GroupedAttention, EqualsThePackedFormWithCopies) {
  for (const KernelKind kind : kKernelKinds) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int causal : {0, 1}) {
        for (const double dropout : {0.0, 0.1}) {
          if (kind == KernelKind::kCuda && dropout == 0) continue;
          for (const int64_t size : {6, 8}) {
            if (size == 8 && (kind != KernelKind::kCuda || dtype != DType::kBFloat16)) continue;  // the matrix unit's
            Case c = {.sequences = 2, .length = 65, .heads = 4, .size = size, .causal = causal, .dropout = dropout};
            for (const int64_t heads : {1, 2, 4}) {
              c.key_value_heads = heads;
              ExpectEqualsPacked(c, dtype, kind);
            }
          }
        }
      }
    }
  }
}

// One row a sequence: the output is the value that the head reads.
TEST(GroupedAttention, HeadsOfAGroupReadOneValue) {
  const Case c = {.heads = 4, .size = 1, .key_value_heads = 2};
  for (const KernelKind kind : kKernelKinds) {
    const Values o = RunKernel(c.Forward(DType::kFloat32), {{1, 2, 3, 4}, {5, 6}, {7, 8}}, {.kind = kind})[0];
    EXPECT_EQ(o, (Values{7, 7, 8, 8}));
    // With one key, p is 1 and the scores have no gradient.
    const std::vector<Values> gradients =
        RunKernel(c.Gradient(DType::kFloat32), {{1, 2, 3, 4}, {5, 6}, {7, 8}, o, {5, 10, 18, 24}, {1, 10, 100, 1000}},
                  {.kind = kind});
    EXPECT_EQ(gradients[0], (Values{0, 0, 0, 0}));
    EXPECT_EQ(gradients[1], (Values{0, 0}));
    EXPECT_EQ(gradients[2], (Values{11, 1100}));
  }
}

TEST(GroupedAttention, FastAgreesWithReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {1, 17, 40, 97}) {
      for (const int causal : {0, 1}) {
        Case c = {.sequences = 2, .length = length, .heads = 6, .size = 10, .causal = causal, .key_value_heads = 2};
        ExpectFastAgrees(c, dtype, length < 97);
        c = {.length = length, .heads = 3, .size = 32, .causal = causal, .dropout = 0.1, .key_value_heads = 1};
        ExpectFastAgrees(c, dtype, length < 97);
      }
    }
  }
}

TEST(GroupedAttention, GradientMatchesFiniteDifferences) {
  for (const int causal : {0, 1}) {
    for (const double dropout : {0.0, 0.1}) {
      const Case c = {.sequences = 2,
                      .length = 4,
                      .heads = 4,
                      .size = 2,
                      .causal = causal,
                      .dropout = dropout,
                      .key_value_heads = 2};
      const auto gradient = [&](const std::vector<Values>& inputs, const std::vector<Values>& outputs,
                                const std::vector<Values>& d) {
        return RunKernel(c.Gradient(DType::kFloat64), {inputs[0], inputs[1], inputs[2], outputs[0], outputs[1], d[0]},
                         kRun);
      };
      ExpectGradientMatchesFiniteDifferences(c.Forward(DType::kFloat64), InputsOf(c, DType::kFloat64), {0, 1, 2},
                                             gradient, {.run = kRun});
    }
  }
}

TEST(GroupedAttention, OutputTypesAndFlops) {
  const Case c = {.sequences = 2, .length = 8, .heads = 4, .size = 3, .key_value_heads = 2};
  const KernelSpec gradient = c.Gradient(DType::kBFloat16);
  EXPECT_EQ(gradient.outputs[0], (TensorType{DType::kBFloat16, {16, 12}}));
  EXPECT_EQ(gradient.outputs[1], (TensorType{DType::kBFloat16, {16, 6}}));
  EXPECT_EQ(gradient.outputs[2], gradient.outputs[1]);
  const int64_t flops = 4 * 16 * 8 * 12;
  EXPECT_EQ(GetOperation("attention").flops(c.Forward(DType::kBFloat16).inputs, c.attributes()), flops / 2);
  EXPECT_EQ(GetOperation("attention_gradient").flops(gradient.inputs, c.attributes()), flops / 4 * 5);
}

TEST(GroupedAttentionDeathTest, HeadsThatDoNotDivideAreRefused) {
  const Case c = {.heads = 4, .key_value_heads = 3};
  EXPECT_DEATH(c.Forward(DType::kFloat32), "3 key-value heads do not divide 4 heads");
}

}  // namespace
}  // namespace reprise::testing
