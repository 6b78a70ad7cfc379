// Results have the same bits in whatever order the threads and blocks of a GPU run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/cuda/fibers.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

struct Example {
  KernelSpec spec;
  std::vector<Values> inputs;
};

Example Make(const std::string& operation, const std::vector<TensorType>& types, const Attributes& attributes,
             int64_t integers_below = 1) {
  Example example{MakeSpec(operation, types, attributes), {}};
  for (size_t i = 0; i < types.size(); ++i) {
    example.inputs.push_back(types[i].dtype == DType::kInt32 ? RandomIntegers(types[i].elements(), i, integers_below)
                                                             : RandomValues(types[i].elements(), i));
  }
  return example;
}

void ExpectSameBitsInEveryOrder(const Example& example) {
  const KernelRun run = {.kind = KernelKind::kCuda, .step = {.seed = 3, .step = 5}};
  SetThreadOrder(0);
  const std::vector<Values> expected = RunKernel(example.spec, example.inputs, run);
  EXPECT_GT(LaunchCount(), 0) << example.spec.ToString();
  for (const uint64_t seed : {1, 2, 3}) {
    SetThreadOrder(seed * 1000);
    const std::vector<Values> outputs = RunKernel(example.spec, example.inputs, run);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(SameBits(outputs[i], expected[i])) << example.spec.ToString() << " output " << i << " seed " << seed;
    }
  }
}

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

TEST(ThreadOrder, Embedding) {
  const TensorType ids{DType::kInt32, {300}};
  const Attributes attributes = Attributes().Set("sequence_length", 60).Set("vocabulary", 60).Set("positions", 60);
  for (const DType dtype : kTypes) {
    ExpectSameBitsInEveryOrder(Make("embedding", {ids, {dtype, {60, 40}}, {dtype, {60, 40}}, ids}, attributes, 60));
    ExpectSameBitsInEveryOrder(Make("embedding_gradient", {ids, {dtype, {300, 40}}, ids}, attributes, 60));
  }
}

TEST(ThreadOrder, RotaryAndImages) {
  const Attributes rotary = Attributes().Set("heads", 2).Set("sequence_length", 5).Set("theta", 1e4);
  const Attributes length = Attributes().Set("sequence_length", 5);
  for (const DType dtype : kTypes) {
    ExpectSameBitsInEveryOrder(
        Make("rotary", {{dtype, {10, 144}}}, Attributes(rotary).Set("scaling", 0).Set("inverse", 0)));
    ExpectSameBitsInEveryOrder(Make("prepend_row_gradient", {{dtype, {15, 70}}}, length));
  }
}

TEST(ThreadOrder, CrossEntropy) {
  const Attributes attributes = Attributes().Set("gradients", 1);
  for (const DType dtype : kTypes) {
    for (const int64_t vocabulary : {700, 2500}) {  // of one stripe of a row, and of several
      ExpectSameBitsInEveryOrder(
          Make("linear_cross_entropy",
               {{dtype, {20, 8}}, {dtype, {vocabulary, 8}}, {DType::kInt32, {20}}, {dtype, {vocabulary}}}, attributes,
               vocabulary));
    }
  }
}

TEST(ThreadOrder, Attention) {
  const Attributes attributes = Attributes()
                                    .Set("heads", 4)
                                    .Set("key_value_heads", 2)
                                    .Set("sequence_length", 70)
                                    .Set("causal", 1)
                                    .Set("documents", 1)
                                    .Set("dropout", 0.1)
                                    .Set("salt", 1);
  for (const DType dtype : kTypes) {
    const TensorType q{dtype, {140, 4 * 40}};
    const TensorType k{dtype, {140, 2 * 40}};
    const TensorType starts{DType::kInt32, {140}};
    const TensorType lse{DType::kFloat32, {140 * 4}};
    ExpectSameBitsInEveryOrder(Make("attention", {q, k, k, starts}, attributes));
    ExpectSameBitsInEveryOrder(Make("attention_gradient", {q, k, k, starts, q, lse, q}, attributes));
  }
}

}  // namespace
}  // namespace reprise::testing
