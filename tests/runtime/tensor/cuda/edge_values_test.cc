// Zeros of both signs, subnormals, infinities, NaN and ties of bfloat16 in the CUDA kernels of single elements, rows
// and shards, and that no order of threads and blocks changes a bit. Sizes are off every pack and every block.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/tools/cuda/fibers.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

// Exact in float32; in bfloat16 some are ties and some overflow.
const Values kEdges = {0.0,
                       -0.0,
                       0x1p-149,
                       -0x1p-149,
                       0x1p-133,
                       -0x1.8p-133,
                       0x1p-126,
                       1,
                       -1,
                       1 + 0x1p-8,
                       -1 - 0x3p-8,
                       1 + 0x1p-8 + 0x1p-23,
                       0x1.fep127,
                       0x1.fffffep127,
                       -0x1.fffffep127,
                       kInfinity,
                       -kInfinity,
                       kNaN};

int64_t SizeOfEdges() { return static_cast<int64_t>(kEdges.size()); }

struct Pairs {
  Values a;
  Values b;
};

// Every edge with every other.
Pairs PairsOfEdges() {
  Pairs pairs;
  for (const double a : kEdges) {
    for (const double b : kEdges) {
      pairs.a.push_back(a);
      pairs.b.push_back(b);
    }
  }
  return pairs;
}

std::vector<Values> RunCuda(const KernelSpec& spec, const std::vector<Values>& inputs, KernelRun run = {}) {
  run.kind = KernelKind::kCuda;
  return RunKernel(spec, inputs, run);
}

void ExpectBitsOfReference(const KernelSpec& spec, const std::vector<Values>& inputs, const KernelRun& run = {}) {
  const std::vector<Values> expected = RunKernel(spec, inputs, run);
  const std::vector<Values> actual = RunCuda(spec, inputs, run);
  ASSERT_EQ(actual.size(), expected.size()) << spec.ToString();
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(SameBits(actual[i], expected[i])) << spec.ToString() << " output " << i;
  }
}

void ExpectNearReference(const KernelSpec& spec, const std::vector<Values>& inputs, const Tolerance& tolerance,
                         const KernelRun& run = {}) {
  const std::vector<Values> expected = RunKernel(spec, inputs, run);
  const std::vector<Values> actual = RunCuda(spec, inputs, run);
  ASSERT_EQ(actual.size(), expected.size()) << spec.ToString();
  for (size_t i = 0; i < actual.size(); ++i) {
    ExpectClose(actual[i], expected[i], tolerance, spec.ToString() + " output " + std::to_string(i));
  }
}

TEST(CudaEdgeValues, SumsAndCopiesHaveTheBitsOfTheReference) {
  const auto [a, b] = PairsOfEdges();
  const auto count = static_cast<int64_t>(a.size());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TensorType flat{dtype, {count}};
    ExpectBitsOfReference(MakeSpec("add", {flat, flat}), {a, b});
    ExpectBitsOfReference(MakeSpec("copy", {flat}), {a});
    for (const double factor : {1.0, -0.5, 0x1p-140, 0x1p100, 1.0 / 3}) {
      ExpectBitsOfReference(MakeSpec("scale", {flat}, Attributes().Set("factor", factor)), {a});
    }
    for (const DType to : {DType::kFloat32, DType::kBFloat16}) {
      ExpectBitsOfReference(MakeSpec("cast", {flat}, Attributes().Set("dtype", static_cast<int>(to))), {a});
    }
    const TensorType rows{dtype, {SizeOfEdges(), SizeOfEdges()}};
    ExpectBitsOfReference(MakeSpec("bias_add", {rows, {dtype, {SizeOfEdges()}}}), {a, kEdges});
    ExpectBitsOfReference(MakeSpec("bias_add", {{dtype, {SizeOfEdges(), 1}}, {dtype, {1}}}), {kEdges, {-0.0}});
    ExpectBitsOfReference(MakeSpec("bias_gradient", {{dtype, {1, SizeOfEdges()}}}), {kEdges});
  }
}

TEST(CudaEdgeValues, SumsInBFloat16RoundTiesToEven) {
  const TensorType x{DType::kBFloat16, {5}};
  const Values sum = RunCuda(MakeSpec("add", {x, x}), {{1, 1 + 0x1p-7, -1, 0x1.fep127, -0.0},  //
                                                       {0x1p-8, 0x1p-8, -0x1p-8, 0x1p120, -0.0}})[0];
  EXPECT_TRUE(SameBits(sum, {1, 1 + 0x1p-6, -1, kInfinity, -0.0}));
}

TEST(CudaEdgeValues, OneElementMoreOrLessThanAPack) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 2047, 2048, 2049}) {
      const TensorType flat{dtype, {count}};
      ExpectBitsOfReference(MakeSpec("add", {flat, flat}), {RandomValues(count, 1), RandomValues(count, 2)});
      ExpectBitsOfReference(
          MakeSpec("fill_zero", {}, Attributes().Set("dtype", static_cast<int>(dtype)).Set("elements", count)), {});
    }
  }
}

// As the reference up to rounding; where exp and erfc give subnormals, up to the smallest of them.
TEST(CudaEdgeValues, ActivationsAreThoseOfTheReference) {
  const auto [a, b] = PairsOfEdges();
  Values x = a;
  for (const double at : {-5.0, -9.5, -13.0, -20.0, 5.0, 20.0, -88.0, -104.0, 88.0}) x.push_back(at);
  Values outer = b;
  outer.resize(x.size(), 2.0);
  const auto count = static_cast<int64_t>(x.size());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tolerance tolerance = dtype == DType::kFloat32 ? Tolerance{1e-6, 3e-45} : Tolerance{0x1p-7, 1e-40};
    const TensorType row{dtype, {1, count}};
    for (const std::string form : {"gelu", "gelu_erf"}) {
      ExpectNearReference(MakeSpec(form, {row}), {x}, tolerance);
      ExpectNearReference(MakeSpec(form + "_gradient", {row, row}), {x, outer}, tolerance);
      ExpectNearReference(MakeSpec("bias_" + form, {row, {dtype, {count}}}), {x, outer}, tolerance);
      ExpectNearReference(MakeSpec("bias_" + form + "_gradient", {row, {dtype, {count}}, row}),
                          {x, Values(x.size(), 0.0), outer}, tolerance);
    }
    ExpectNearReference(MakeSpec("silu_multiply", {row, row}), {x, outer}, tolerance);
    ExpectNearReference(MakeSpec("silu_multiply_gradient", {row, row, row}), {x, outer, Values(x.size(), 3.0)},
                        tolerance);
  }
}

// What is dropped is 0 whatever it was.
TEST(CudaEdgeValues, DroppedInfinitiesAndNaNAreZero) {
  const KernelRun run = {.step = {.seed = 11, .step = 4}, .block = 1, .first_sequence = 3};
  const auto [a, b] = PairsOfEdges();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TensorType x{dtype, {SizeOfEdges(), SizeOfEdges()}};
    for (const int64_t length : {int64_t{1}, int64_t{2}, SizeOfEdges()}) {
      const Attributes attributes = Attributes().Set("p", 0.5).Set("salt", 2).Set("sequence_length", length);
      ExpectBitsOfReference(MakeSpec("dropout", {x}, attributes), {a}, run);
      ExpectBitsOfReference(MakeSpec("dropout_add", {x, x}, attributes), {a, b}, run);
    }
  }
  const TensorType row{DType::kFloat32, {1, 64}};
  const Attributes attributes = Attributes().Set("p", 0.5).Set("salt", 2).Set("sequence_length", 1);
  int zeros = 0;
  const Values dropped = RunCuda(MakeSpec("dropout", {row}, attributes), {Values(64, kInfinity)}, run)[0];
  for (const double y : dropped) {
    EXPECT_TRUE(y == 0 || y == kInfinity) << y;
    zeros += y == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 8);
  EXPECT_LT(zeros, 56);
}

// More sequences than blocks stand side by side, and more blocks of a sequence than one thread's first round.
TEST(CudaEdgeValues, DropoutGoesOnPastItsGrid) {
  const KernelRun run = {.step = {.seed = 11, .step = 4}, .first_sequence = 3};
  const Attributes attributes = Attributes().Set("p", 0.25).Set("salt", 2).Set("sequence_length", 1);
  for (const TensorType& x : {TensorType{DType::kBFloat16, {2061, 3}}, TensorType{DType::kBFloat16, {1031, 2500}}}) {
    ExpectBitsOfReference(MakeSpec("dropout", {x}, attributes), {RandomValues(x.elements(), 1)}, run);
  }
}

TEST(CudaEdgeValues, OptimizersFollowTheReference) {
  const auto [gradient, parameter] = PairsOfEdges();
  const auto count = static_cast<int64_t>(gradient.size());
  const TensorType flat{DType::kFloat32, {count}};
  Values variance;
  for (const double value : parameter) variance.push_back(std::abs(value));
  const KernelSpec adamw =
      MakeSpec("adamw", {flat},
               Attributes().Set("beta1", 0.9).Set("beta2", 0.999).Set("epsilon", 1e-8).Set("weight_decay", 0.1));
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{999}, int64_t{1} << 40}) {
    const KernelRun run = {.step = {.step = step, .learning_rate = 1e-3, .gradient_scale = 0.5},
                           .before = {parameter, parameter, variance}};
    ExpectNearReference(adamw, {gradient}, {1e-6, 3e-45}, run);
  }
  ExpectBitsOfReference(MakeSpec("sgd", {flat}, Attributes().Set("weight_decay", 0.01)), {gradient},
                        {.step = {.learning_rate = 0.1, .gradient_scale = 0.5}, .before = {parameter}});
}

TEST(CudaEdgeValues, SquaredSumIsExactAndSaysWhatIsNotFinite) {
  const auto sum = [](const Values& x) {
    return RunCuda(MakeSpec("squared_sum", {{DType::kFloat32, {static_cast<int64_t>(x.size())}}}), {x})[0][0];
  };
  EXPECT_EQ(sum({0x1p-149, -0x1p-149}), 0x1p-297);
  EXPECT_EQ(sum({0x1.fffffep127, -0x1.fffffep127}), 2 * 0x1.fffffep127 * 0x1.fffffep127);
  EXPECT_EQ(sum({1, -kInfinity, 2}), kInfinity);
  EXPECT_TRUE(std::isnan(sum({1, kNaN, kInfinity})));
  Values x(3 * 4096 + 5, 1.0);  // the last chunk is not full
  x.back() = 2;
  EXPECT_EQ(sum(x), 3 * 4096 + 4 + 4);
}

// A row that is not finite is NaN itself, and no other is.
TEST(CudaEdgeValues, RowsOfLayerNormStandForThemselves) {
  const int64_t width = 41;
  for (const double edge : {kInfinity, -kInfinity, kNaN, 0x1p-149, -0.0}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Values x = RandomValues(3 * width, 1);
      for (int64_t c = 0; c < width; ++c) x[static_cast<size_t>(width + c)] = std::isfinite(edge) ? edge : 1.0;
      x[static_cast<size_t>(width + 17)] = edge;
      const TensorType type{dtype, {3, width}};
      const TensorType row{dtype, {width}};
      const KernelSpec spec = MakeSpec("layer_norm", {type, row, row}, Attributes().Set("epsilon", 1e-5));
      const std::vector<Values> inputs = {x, RandomValues(width, 2), RandomValues(width, 3)};
      ExpectNearReference(spec, inputs, {dtype == DType::kFloat32 ? 1e-4 : 0x1p-7, 1e-5});
      int not_numbers = 0;
      const Values normalized = RunCuda(spec, inputs)[0];
      for (const double y : normalized) not_numbers += std::isnan(y) ? 1 : 0;
      EXPECT_EQ(not_numbers, std::isfinite(edge) ? 0 : width);
    }
  }
}

// Specs of all operations of these files, on rows of `width`.
std::vector<KernelSpec> SpecsOf(DType dtype, int64_t rows, int64_t width) {
  const TensorType x{dtype, {rows, width}};
  const TensorType row{dtype, {width}};
  const TensorType statistic{DType::kFloat32, {rows}};
  const TensorType shard{DType::kFloat32, {rows * width}};
  const Attributes epsilon = Attributes().Set("epsilon", 1e-5);
  const Attributes drop = Attributes().Set("p", 0.3).Set("salt", 1).Set("sequence_length", 1);
  const Attributes adamw =
      Attributes().Set("beta1", 0.9).Set("beta2", 0.95).Set("epsilon", 1e-8).Set("weight_decay", 0.1);
  return {MakeSpec("add", {x, x}),
          MakeSpec("scale", {x}, Attributes().Set("factor", 0.3)),
          MakeSpec("bias_add", {x, row}),
          MakeSpec("bias_gradient", {x}),
          MakeSpec("copy", {x}),
          MakeSpec("gelu", {x}),
          MakeSpec("gelu_gradient", {x, x}),
          MakeSpec("bias_gelu", {x, row}),
          MakeSpec("bias_gelu_gradient", {x, row, x}),
          MakeSpec("gelu_erf", {x}),
          MakeSpec("gelu_erf_gradient", {x, x}),
          MakeSpec("bias_gelu_erf", {x, row}),
          MakeSpec("bias_gelu_erf_gradient", {x, row, x}),
          MakeSpec("silu_multiply", {x, x}),
          MakeSpec("silu_multiply_gradient", {x, x, x}),
          MakeSpec("dropout", {x}, drop),
          MakeSpec("dropout_add", {x, x}, drop),
          MakeSpec("adamw", {shard}, adamw),
          MakeSpec("sgd", {shard}, Attributes().Set("weight_decay", 0.1)),
          MakeSpec("squared_sum", {shard}),
          MakeSpec("cast", {x}, Attributes().Set("dtype", static_cast<int>(DType::kBFloat16))),
          MakeSpec("fill_zero", {}, Attributes().Set("dtype", static_cast<int>(dtype)).Set("elements", rows * width)),
          MakeSpec("layer_norm", {x, row, row}, epsilon),
          MakeSpec("add_layer_norm", {x, x, row, row}, epsilon),
          MakeSpec("layer_norm_gradient", {x, row, statistic, statistic, x, x}, epsilon)};
}

struct CudaCase {
  std::vector<Values> inputs;
  KernelRun run;
};

CudaCase CaseOf(const KernelSpec& spec) {
  CudaCase c;
  c.run.step = {.seed = 3, .step = 2, .learning_rate = 1e-2};
  for (const TensorType& type : spec.inputs) c.inputs.push_back(RandomValues(type.elements(), c.inputs.size(), -2, 2));
  for (const TensorType& type : spec.outputs) c.run.before.push_back(RandomValues(type.elements(), 9, 0, 1));
  return c;
}

// Rows of whole packs, which the sizes of other tests are not.
TEST(CudaPacks, AgreeWithTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {8, 40, 320}) {
      for (const KernelSpec& spec : SpecsOf(dtype, 37, width)) {
        const CudaCase c = CaseOf(spec);
        ExpectNearReference(spec, c.inputs, dtype == DType::kFloat32 ? Tolerance{1e-4, 1e-4} : Tolerance{0x1p-7, 1e-3},
                            c.run);
      }
    }
  }
}

TEST(CudaThreadOrder, DoesNotChangeABit) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {1, 67, 320}) {
      for (const KernelSpec& spec : SpecsOf(dtype, 37, width)) {
        const CudaCase c = CaseOf(spec);
        std::vector<Values> first;
        for (const uint64_t seed : {1, 2, 3}) {
          SetThreadOrder(1000 * seed);
          const std::vector<Values> outputs = RunCuda(spec, c.inputs, c.run);
          if (first.empty()) first = outputs;
          ASSERT_EQ(outputs.size(), first.size());
          for (size_t i = 0; i < outputs.size(); ++i) {
            EXPECT_TRUE(SameBits(outputs[i], first[i])) << spec.ToString() << " output " << i << " by seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing
