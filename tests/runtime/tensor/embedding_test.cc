#include <gtest/gtest.h>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

Attributes AttributesOf(int64_t length, int64_t vocabulary, int64_t positions) {
  return Attributes().Set("sequence_length", length).Set("vocabulary", vocabulary).Set("positions", positions);
}

TEST(Embedding, AddsTheRowsOfTokenAndPosition) {
  const KernelSpec spec =
      MakeSpec("embedding", {{DType::kInt32, {4}}, {DType::kFloat32, {3, 2}}, {DType::kFloat32, {2, 2}}},
               Attributes().Set("sequence_length", 2));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{2, 0, 1, 2}, {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40}}, {.kind = kind})[0],
              (Values{15, 26, 31, 42, 13, 24, 35, 46}));
  }
}

TEST(Embedding, WithoutPositionsIsARowOfTheTable) {
  const KernelSpec spec =
      MakeSpec("embedding", {{DType::kInt32, {4}}, {DType::kFloat32, {3, 2}}}, Attributes().Set("sequence_length", 2));
  const KernelSpec gradient =
      MakeSpec("embedding_gradient", {{DType::kInt32, {4}}, {DType::kFloat32, {4, 2}}}, AttributesOf(2, 3, 0));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{2, 0, 1, 2}, {1, 2, 3, 4, 5, 6}}, {.kind = kind})[0], (Values{5, 6, 1, 2, 3, 4, 5, 6}));
    const std::vector<Values> tables = RunKernel(gradient, {{2, 0, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}, {.kind = kind});
    ASSERT_EQ(tables.size(), 1U);
    EXPECT_EQ(tables[0], (Values{3, 4, 0, 0, 13, 16}));
  }
}

TEST(EmbeddingGradient, SumsRepeatedTokensAndLeavesTheOthersZero) {
  const KernelSpec spec =
      MakeSpec("embedding_gradient", {{DType::kInt32, {4}}, {DType::kFloat32, {4, 2}}}, AttributesOf(2, 4, 3));
  const std::vector<Values> inputs = {{2, 0, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  for (const KernelKind kind : kKernelKinds) {
    const std::vector<Values> assigned = RunKernel(spec, inputs, {.kind = kind});
    EXPECT_EQ(assigned[0], (Values{3, 4, 0, 0, 13, 16, 0, 0}));
    EXPECT_EQ(assigned[1], (Values{6, 8, 10, 12, 0, 0}));
    const std::vector<Values> added =
        RunKernel(spec, inputs, {.kind = kind, .accumulate = 1, .before = {Values(8, 100.0), Values(6, 100.0)}});
    EXPECT_EQ(added[0], (Values{103, 104, 100, 100, 113, 116, 100, 100}));
    EXPECT_EQ(added[1], (Values{6, 8, 10, 12, 0, 0}));
  }
}

TEST(Embedding, PositionsThatAreGivenTakeThePlaceOfThoseCounted) {
  const TensorType ids{DType::kInt32, {4}};
  const KernelSpec spec = MakeSpec("embedding", {ids, {DType::kFloat32, {3, 2}}, {DType::kFloat32, {4, 2}}, ids},
                                   Attributes().Set("sequence_length", 4));
  const KernelSpec gradient =
      MakeSpec("embedding_gradient", {ids, {DType::kFloat32, {4, 2}}, ids}, AttributesOf(4, 3, 4));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{2, 0, 1, 2}, {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60, 70, 80}, {0, 1, 0, 1}},
                        {.kind = kind})[0],
              (Values{15, 26, 31, 42, 13, 24, 35, 46}));
    const std::vector<Values> tables =
        RunKernel(gradient, {{2, 0, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 0, 3}}, {.kind = kind});
    EXPECT_EQ(tables[0], (Values{3, 4, 0, 0, 13, 16}));
    EXPECT_EQ(tables[1], (Values{6, 8, 3, 4, 0, 0, 7, 8}));
  }
}

// Sums are in token order in both kernels, in float32: the same bits.
TEST(Embedding, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {1, 5, 33}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257, 600}) {
        const int64_t rows = 3 * length;
        const TensorType tokens{DType::kInt32, {rows}};
        const Values ids = RandomIntegers(rows, 1, 11);
        ExpectKernelsAgree(MakeSpec("embedding", {tokens, {dtype, {11, width}}, {dtype, {length + 2, width}}},
                                    Attributes().Set("sequence_length", length)),
                           {ids, RandomValues(11 * width, 2), RandomValues((length + 2) * width, 3)}, {});
        ExpectKernelsAgree(
            MakeSpec("embedding_gradient", {tokens, {dtype, {rows, width}}}, AttributesOf(length, 11, length + 2)),
            {ids, RandomValues(rows * width, 4)}, {}, {.accumulated = 3});
        ExpectKernelsAgree(MakeSpec("embedding_gradient", {tokens, {dtype, {rows, width}}, tokens},
                                    AttributesOf(length, 11, length + 2)),
                           {ids, RandomValues(rows * width, 4), RandomIntegers(rows, 5, length)}, {},
                           {.accumulated = 3});
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing
