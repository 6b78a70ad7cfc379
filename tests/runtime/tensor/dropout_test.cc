#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tensor/philox.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

Attributes AttributesOf(double p, int64_t length, int64_t salt = 1) {
  return Attributes().Set("p", p).Set("salt", salt).Set("sequence_length", length);
}

KernelRun RunOf(KernelKind kind, KernelRun run = {}) {
  run.kind = kind;
  return run;
}

const KernelRun kRun = {.step = {.seed = 7, .step = 3}, .block = 2, .first_sequence = 5};

// 1 where an element is kept, after checking that it is x / (1 - p) or 0.
Values MaskOf(const KernelSpec& spec, const KernelRun& run) {
  const Values ones(static_cast<size_t>(spec.inputs[0].elements()), 1.0);
  Values mask = RunKernel(spec, {ones}, run)[0];
  const double kept = 1 / (1 - spec.attributes.Real("p"));
  for (double& m : mask) {
    EXPECT_TRUE(m == 0 || std::abs(m - kept) < 1e-6);
    m = m == 0 ? 0 : 1;
  }
  return mask;
}

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, HasItsKnownAnswers) {
  EXPECT_EQ(RandomBits({0, 0}, 0, 0), (std::array<uint32_t, 4>{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(RandomBits({0xFFFFFFFF, 0xFFFFFFFF}, -1, -1),
            (std::array<uint32_t, 4>{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(RandomBits({0xA4093822, 0x299F31D0}, 0x0370734413198A2E, static_cast<int64_t>(0x85A308D3243F6A88)),
            (std::array<uint32_t, 4>{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Dropout, FastHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t length : {1, 3, 5, 37}) {
      for (const int64_t width : {1, 3, 7, 31, 33, 257}) {
        const TensorType x{dtype, {2 * length, width}};
        const Values a = RandomValues(x.elements(), 1);
        ExpectKernelsAgree(MakeSpec("dropout", {x}, AttributesOf(0.3, length)), {a}, {}, {.run = kRun});
        ExpectKernelsAgree(MakeSpec("dropout_add", {x, x}, AttributesOf(0.3, length)),
                           {a, RandomValues(x.elements(), 2)}, {}, {.run = kRun});
      }
    }
  }
}

TEST(Dropout, FollowsTheCounterPastThirtyTwoBits) {
  const KernelSpec spec = MakeSpec("dropout", {{DType::kFloat32, {1, 64}}}, AttributesOf(0.5, 1));
  KernelRun run = {.step = {.seed = ~0ULL, .step = 1}, .block = 3, .first_sequence = (int64_t{1} << 40) + 9};
  const RandomKey key = MakeRandomKey(run.step.seed, 1, OperationNumber(3, 1));
  Values expected;
  for (int64_t i = 0; i < 64; ++i) {
    const bool keep = RandomBits(key, run.first_sequence, i / 4)[static_cast<size_t>(i % 4)] >= 0x80000000U;
    expected.push_back(keep ? 1 : 0);
  }
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_EQ(MaskOf(spec, RunOf(kind, run)), expected);
  }
}

// The count of kept elements is binomial: within six standard deviations, for seeds that stay as they are.
TEST(Dropout, DropsAtItsRate) {
  const int64_t elements = 64 * 1000;
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    const KernelSpec spec = MakeSpec("dropout", {{DType::kFloat32, {64, 1000}}}, AttributesOf(p, 16));
    double kept = 0;
    for (const double m : MaskOf(spec, RunOf(KernelKind::kCpu, kRun))) kept += m;
    const double bound = 6 * std::sqrt(elements * p * (1 - p));
    EXPECT_NEAR(kept, elements * (1 - p), bound) << p;
  }
}

TEST(Dropout, DoesNotDependOnHowSequencesAreSplitOverRanks) {
  const int64_t length = 3;
  const int64_t width = 10;
  const KernelSpec whole = MakeSpec("dropout", {{DType::kFloat32, {4 * length, width}}}, AttributesOf(0.4, length));
  const KernelSpec half = MakeSpec("dropout", {{DType::kFloat32, {2 * length, width}}}, AttributesOf(0.4, length));
  for (const KernelKind kind : kKernelKinds) {
    KernelRun run = RunOf(kind, kRun);
    const Values together = MaskOf(whole, run);
    Values apart = MaskOf(half, run);
    run.first_sequence += 2;
    const Values second = MaskOf(half, run);
    apart.insert(apart.end(), second.begin(), second.end());
    EXPECT_EQ(together, apart);
  }
}

TEST(Dropout, DrawsAnewForEachSeedStepBlockSaltAndSequence) {
  const auto mask = [](const KernelRun& run, int64_t salt) {
    return MaskOf(MakeSpec("dropout", {{DType::kFloat32, {1, 512}}}, AttributesOf(0.5, 1, salt)), run);
  };
  const std::vector<Values> masks = {
      mask({.kind = KernelKind::kCpu}, 0),
      mask({.kind = KernelKind::kCpu, .step = {.seed = 1}}, 0),
      mask({.kind = KernelKind::kCpu, .step = {.step = 1}}, 0),
      mask({.kind = KernelKind::kCpu, .block = 1}, 0),
      mask({.kind = KernelKind::kCpu}, 1),
      mask({.kind = KernelKind::kCpu, .first_sequence = 1}, 0),
  };
  for (size_t i = 0; i < masks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      double equal = 0;
      for (size_t k = 0; k < 512; ++k) equal += masks[i][k] == masks[j][k] ? 1 : 0;
      EXPECT_NEAR(equal, 256, 6 * std::sqrt(128.0)) << i << " and " << j;
    }
  }
}

TEST(DropoutAdd, HasTheBitsOfDropoutThenAdd) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const KernelKind kind : kKernelKinds) {
      const TensorType x{dtype, {6, 45}};
      const Values a = RandomValues(270, 1);
      const Values r = RandomValues(270, 2);
      const KernelRun run = RunOf(kind, kRun);
      const Values dropped = RunKernel(MakeSpec("dropout", {x}, AttributesOf(0.3, 2)), {a}, run)[0];
      const Values apart = RunKernel(MakeSpec("add", {x, x}), {r, dropped}, run)[0];
      const Values fused = RunKernel(MakeSpec("dropout_add", {x, x}, AttributesOf(0.3, 2)), {a, r}, run)[0];
      EXPECT_TRUE(SameBits(fused, apart));
    }
  }
}

}  // namespace
}  // namespace reprise::testing
