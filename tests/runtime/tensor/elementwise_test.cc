#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

TEST(Add, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 3, 200}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        const TensorType x{dtype, {rows, width}};
        const Values a = RandomValues(rows * width, 1);
        ExpectKernelsAgree(MakeSpec("add", {x, x}), {a, RandomValues(rows * width, 2)}, {});
        ExpectKernelsAgree(MakeSpec("bias_add", {x, {dtype, {width}}}), {a, RandomValues(width, 3)}, {});
        ExpectKernelsAgree(MakeSpec("bias_gradient", {x}), {a}, {1e-5, 1e-5}, {.accumulated = 1});
      }
    }
  }
}

TEST(Add, KeepsSpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Values a = {-0.0, -0.0, infinity, infinity, std::nan(""), 0x1p-149, 3.4e38, 1, 1};
  const Values b = {-0.0, 0.0, 1, -infinity, 1, 0x1p-149, 3.4e38, 0x1p-24, 0x1.8p-23};
  const Values expected = {-0.0, 0.0, infinity, std::nan(""), std::nan(""), 0x1p-148, infinity, 1, 1 + 0x1p-22};
  const TensorType x{DType::kFloat32, {9}};
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_TRUE(SameBits(RunKernel(MakeSpec("add", {x, x}), {a, b}, {.kind = kind})[0], expected));
  }
}

TEST(Scale, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t elements : {1, 7, 33, 70001}) {
      const TensorType x{dtype, {elements}};
      for (const double factor : {2.0, 0.3, -1.0 / 3}) {
        ExpectKernelsAgree(MakeSpec("scale", {x}, Attributes().Set("factor", factor)), {RandomValues(elements, 1)}, {});
      }
    }
  }
  const KernelSpec spec = MakeSpec("scale", {{DType::kFloat32, {4}}}, Attributes().Set("factor", -0.5));
  for (const KernelKind kind : kKernelKinds) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Values scaled = RunKernel(spec, {{3, 0, infinity, std::nan("")}}, {.kind = kind})[0];
    EXPECT_TRUE(SameBits(scaled, {-1.5, -0.0, -infinity, std::nan("")}));
  }
}

TEST(Scale, GradientMatchesFiniteDifferences) {
  const KernelSpec spec = MakeSpec("scale", {{DType::kFloat64, {5}}}, Attributes().Set("factor", 1.75));
  const auto gradient = [&](const std::vector<Values>&, const std::vector<Values>&,
                            const std::vector<Values>& output_gradients) { return RunKernel(spec, output_gradients); };
  ExpectGradientMatchesFiniteDifferences(spec, {RandomValues(5, 1)}, {0}, gradient);
}

TEST(Copy, HasEveryBitOfAnyType) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    const int64_t elements = 300007;  // several pieces
    const TensorType x{dtype, {elements}};
    Values values(static_cast<size_t>(elements));
    for (int64_t i = 0; i < elements; ++i) values[static_cast<size_t>(i)] = static_cast<double>(i % 251 - 100);
    for (const KernelKind kind : kKernelKinds) {
      EXPECT_EQ(RunKernel(MakeSpec("copy", {x}), {values}, {.kind = kind, .threads = 2})[0], values);
    }
  }
}

TEST(BiasGradient, DoesNotLoseSmallTermsInBFloat16) {
  const int64_t rows = 1025;
  Values dy(static_cast<size_t>(rows), 0x1p-9);
  dy[0] = 2;
  const KernelSpec spec = MakeSpec("bias_gradient", {{DType::kBFloat16, {rows, 1}}});
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {dy}, {.kind = kind})[0][0], 4);
  }
}

}  // namespace
}  // namespace reprise::testing
