// image_patches, prepend_row, first_row and their gradients.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

Attributes PatchAttributes(int64_t channels, int64_t size, int64_t patch, DType dtype) {
  return Attributes()
      .Set("channels", channels)
      .Set("image_size", size)
      .Set("patch_size", patch)
      .Set("dtype", static_cast<int64_t>(dtype));
}

Attributes Length(int64_t length) { return Attributes().Set("sequence_length", length); }

TEST(ImagePatches, AreReadRowByRowWithChannelsOutermost) {
  // Two channels of 4 x 4: pixel (channel, y, x) is 16 channel + 4 y + x.
  const KernelSpec spec =
      MakeSpec("image_patches", {{DType::kFloat32, {1, 32}}}, PatchAttributes(2, 4, 2, DType::kFloat32));
  Values pixels(32);
  std::iota(pixels.begin(), pixels.end(), 0);
  EXPECT_EQ(spec.outputs[0], (TensorType{DType::kFloat32, {4, 8}}));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {pixels}, {.kind = kind})[0],
              (Values{0, 1, 4,  5,  16, 17, 20, 21, 2,  3,  6,  7,  18, 19, 22, 23,
                      8, 9, 12, 13, 24, 25, 28, 29, 10, 11, 14, 15, 26, 27, 30, 31}));
  }
}

TEST(ImagePatches, FastHasTheBitsOfTheReference) {
  const int64_t sizes[][4] = {{1, 1, 1, 1}, {3, 3, 20, 5}, {2, 1, 28, 7}, {5, 3, 32, 16}, {1, 4, 70, 35}};
  for (const auto& [images, channels, size, patch] : sizes) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const int64_t elements = channels * size * size;
      ExpectKernelsAgree(MakeSpec("image_patches", {{DType::kFloat32, {images, elements}}},
                                  PatchAttributes(channels, size, patch, dtype)),
                         {RandomValues(images * elements, 1)}, {});
    }
  }
}

TEST(PrependRow, AddsTheTableToRowAndSequence) {
  const DType f = DType::kFloat32;
  const KernelSpec spec = MakeSpec("prepend_row", {{f, {4, 1}}, {f, {1, 1}}, {f, {3, 1}}});
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{1, 2, 3, 4}, {10}, {100, 200, 300}}, {.kind = kind})[0],
              (Values{110, 201, 302, 110, 203, 304}));
  }
}

TEST(PrependRow, GradientsSumOverSequences) {
  const KernelSpec spec = MakeSpec("prepend_row_gradient", {{DType::kFloat32, {6, 1}}}, Length(3));
  for (const KernelKind kind : kKernelKinds) {
    const KernelRun run = {.kind = kind, .accumulate = 0b110, .before = {{0, 0, 0, 0}, {100}, {100, 100, 100}}};
    const std::vector<Values> added = RunKernel(spec, {{1, 2, 3, 40, 50, 60}}, run);
    EXPECT_EQ(added[0], (Values{2, 3, 50, 60}));
    EXPECT_EQ(added[1], (Values{141}));
    EXPECT_EQ(added[2], (Values{141, 152, 163}));
  }
}

TEST(PrependRow, GradientMatchesFiniteDifferences) {
  const DType f = DType::kFloat64;
  const auto gradient = [](const std::vector<Values>&, const std::vector<Values>&, const std::vector<Values>& dy) {
    return RunKernel(MakeSpec("prepend_row_gradient", {{DType::kFloat64, {8, 3}}}, Length(4)), {dy[0]});
  };
  ExpectGradientMatchesFiniteDifferences(MakeSpec("prepend_row", {{f, {6, 3}}, {f, {1, 3}}, {f, {4, 3}}}),
                                         {RandomValues(18, 1), RandomValues(3, 2), RandomValues(12, 3)}, {0, 1, 2},
                                         gradient);
}

TEST(PrependRow, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {2, 5, 33}) {
      for (const int64_t width : {1, 7, 33, 600}) {
        const int64_t sequences = 3;
        ExpectKernelsAgree(
            MakeSpec("prepend_row",
                     {{dtype, {sequences * (length - 1), width}}, {dtype, {1, width}}, {dtype, {length, width}}}),
            {RandomValues(sequences * (length - 1) * width, 1), RandomValues(width, 2),
             RandomValues(length * width, 3)},
            {});
        ExpectKernelsAgree(MakeSpec("prepend_row_gradient", {{dtype, {sequences * length, width}}}, Length(length)),
                           {RandomValues(sequences * length * width, 4)}, {}, {.accumulated = 0b110});
      }
    }
  }
}

TEST(FirstRow, TakesTheFirstOfEachSequence) {
  const KernelSpec spec = MakeSpec("first_row", {{DType::kFloat32, {6, 2}}}, Length(3));
  const KernelSpec gradient = MakeSpec("first_row_gradient", {{DType::kFloat32, {2, 2}}}, Length(3));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(RunKernel(spec, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {.kind = kind})[0], (Values{1, 2, 7, 8}));
    EXPECT_EQ(RunKernel(gradient, {{1, 2, 7, 8}}, {.kind = kind})[0], (Values{1, 2, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0}));
  }
}

TEST(FirstRow, GradientMatchesFiniteDifferences) {
  const auto gradient = [](const std::vector<Values>&, const std::vector<Values>&, const std::vector<Values>& dy) {
    return RunKernel(MakeSpec("first_row_gradient", {{DType::kFloat64, {2, 3}}}, Length(4)), {dy[0]});
  };
  ExpectGradientMatchesFiniteDifferences(MakeSpec("first_row", {{DType::kFloat64, {8, 3}}}, Length(4)),
                                         {RandomValues(24, 1)}, {0}, gradient);
}

TEST(FirstRow, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {1, 5, 1000}) {
      ExpectKernelsAgree(MakeSpec("first_row", {{dtype, {3 * length, 33}}}, Length(length)),
                         {RandomValues(3 * length * 33, 1)}, {});
      ExpectKernelsAgree(MakeSpec("first_row_gradient", {{dtype, {3, 33}}}, Length(length)), {RandomValues(99, 1)}, {});
    }
  }
}

}  // namespace
}  // namespace reprise::testing
