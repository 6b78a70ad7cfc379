// The equality matrix: checkpointing, offload, prefetch and sharding change no bit of what a training run computes.
#include "tests/tools/equality.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::ExpectCounts;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::RunOnLocalRanks;

constexpr const char* kPolicies[] = {"all", "every:2", "every:3", "sqrt"};
constexpr Sharding kShardings[] = {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr double kDropouts[] = {0, 0.1};
constexpr int kRanks[] = {1, 2, 3};

void ExpectSameBits(const std::vector<CellOutcome>& actual, const std::vector<CellOutcome>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t rank = 0; rank < actual.size(); ++rank) {
    EXPECT_EQ(FirstDifference(actual[rank], expected[rank]), "") << "on rank " << rank;
  }
}

std::string GroupName(const ::testing::TestParamInfo<EqualityCell>& info) {
  const EqualityCell& c = info.param;
  return absl::StrCat(ShardingName(c.sharding), c.dtype == DType::kBFloat16 ? "_bf16" : "_fp32",
                      c.dropout > 0 ? "_dropout" : "", "_R", c.ranks);
}

std::string CellName(const ::testing::TestParamInfo<EqualityCell>& info) { return info.param.Name(); }

// --- Every policy, with and without offload, against the run that keeps everything ----------------------------------

class PolicyEqualityTest : public ::testing::TestWithParam<EqualityCell> {};

// A third of the cells accumulates: for each choice of all else, one of the three numbers of ranks.
int AccumulationOf(const EqualityCell& cell, int policy) {
  const int place = policy + (cell.offload ? 2 : 0) + static_cast<int>(cell.sharding) +
                    (cell.dtype == DType::kBFloat16 ? 2 : 0) + (cell.dropout > 0 ? 1 : 0) + cell.ranks;
  return place % 3 == 0 ? 2 : 1;
}

TEST_P(PolicyEqualityTest, SameBitsAsKeepingEverything) {
  std::map<int, std::vector<CellOutcome>> references;  // by accumulation
  EqualityCell cell = GetParam();
  for (const bool offload : {false, true}) {
    for (int policy = 0; policy < 4; ++policy) {
      cell.checkpoint = kPolicies[policy];
      cell.offload = offload;
      cell.accumulation = AccumulationOf(cell, policy);
      SCOPED_TRACE(cell.Name());
      std::vector<CellOutcome>& reference = references[cell.accumulation];
      if (reference.empty()) {
        reference = RunOnLocalRanks(cell.Reference());
        ExpectCounts(cell.Reference(), reference);
      }
      const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
      ExpectSameBits(outcome, reference);
      ExpectCounts(cell, outcome);
      EXPECT_GT(outcome[0].steps[0].recomputed_flops, 0);
      EXPECT_EQ(outcome[0].steps[0].offloaded_bytes > 0, offload);
    }
  }
}

std::vector<EqualityCell> Groups() {
  std::vector<EqualityCell> groups;
  for (const Sharding sharding : kShardings) {
    for (const DType dtype : kDTypes) {
      for (const double dropout : kDropouts) {
        for (const int ranks : kRanks) {
          groups.push_back({.sharding = sharding, .dtype = dtype, .dropout = dropout, .ranks = ranks});
        }
      }
    }
  }
  return groups;
}

INSTANTIATE_TEST_SUITE_P(Matrix, PolicyEqualityTest, ::testing::ValuesIn(Groups()), GroupName);

// --- Shardings against each other
// -------------------------------------------------------------------------------------

class ShardingEqualityTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(ShardingEqualityTest, SameBitsWithoutAccumulation) {
  EqualityCell cell = GetParam();
  const std::vector<CellOutcome> full = RunOnLocalRanks(cell);
  for (const Sharding sharding : {Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    cell.sharding = sharding;
    SCOPED_TRACE(cell.Name());
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
    ExpectSameBits(outcome, full);
    ExpectCounts(cell, outcome);
  }
}

std::vector<EqualityCell> FullGroups() {
  std::vector<EqualityCell> groups = Groups();
  groups.resize(groups.size() / 4);  // of kFull
  return groups;
}

INSTANTIATE_TEST_SUITE_P(Matrix, ShardingEqualityTest, ::testing::ValuesIn(FullGroups()), GroupName);

// --- Prefetch
// ---------------------------------------------------------------------------------------------------------

class PrefetchEqualityTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(PrefetchEqualityTest, SameBitsAtAnyDepth) {
  EqualityCell cell = GetParam();
  const std::vector<CellOutcome> expected = RunOnLocalRanks(cell.Reference());
  for (const int depth : {0, 1, 2, 3}) {
    cell.prefetch = depth;
    SCOPED_TRACE(cell.Name());
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
    ExpectSameBits(outcome, expected);
    ExpectCounts(cell, outcome);
    EXPECT_EQ(outcome[0].most_gathered, 1 + depth);
  }
}

INSTANTIATE_TEST_SUITE_P(Named, PrefetchEqualityTest,
                         ::testing::Values(EqualityCell{.ranks = 2},
                                           EqualityCell{.checkpoint = "all", .offload = true, .ranks = 2},
                                           EqualityCell{.checkpoint = "every:3",
                                                        .offload = true,
                                                        .dtype = DType::kBFloat16,
                                                        .dropout = 0.1,
                                                        .ranks = 3,
                                                        .accumulation = 2},
                                           EqualityCell{.checkpoint = "sqrt", .ranks = 1}),
                         CellName);

// --- The comparison itself
// --------------------------------------------------------------------------------------------

TEST(EqualityCheckTest, SeesOneBit) {
  const CellOutcome outcome = RunOnLocalRanks({})[0];
  EXPECT_EQ(FirstDifference(outcome, outcome), "");
  CellOutcome other = outcome;
  other.tensors.back().second.back() = -other.tensors.back().second.back();
  EXPECT_NE(FirstDifference(other, outcome), "");
  EXPECT_NE(HashOf(other), HashOf(outcome));
  other = outcome;
  other.tensors.pop_back();
  EXPECT_NE(FirstDifference(other, outcome), "");
  EXPECT_NE(FirstDifference(outcome, other), "");
  EXPECT_NE(FirstDifference(outcome, {}), "");
}

// Cells that must differ do: what they name has an effect on the numbers at hand, and the clip is in force.
TEST(EqualityCheckTest, CellsThatMustDifferDo) {
  const EqualityCell cell{.ranks = 2};
  const CellOutcome outcome = RunOnLocalRanks(cell)[0];
  for (EqualityCell other :
       {EqualityCell{.dtype = DType::kBFloat16, .ranks = 2}, EqualityCell{.dropout = 0.1, .ranks = 2},
        EqualityCell{.ranks = 2, .accumulation = 2}, EqualityCell{.ranks = 3}}) {
    EXPECT_NE(FirstDifference(RunOnLocalRanks(other)[0], outcome), "") << other.Name();
  }
  for (const StepResult& step : outcome.steps) EXPECT_GT(step.gradient_norm, 0.25);
  for (const auto& [name, values] : outcome.tensors) {
    EXPECT_NE(values, std::vector<float>(values.size(), 0)) << name;
  }
}

}  // namespace
}  // namespace reprise
