// The equality matrix over models: Llama and Qwen2, frozen parts, low-rank adapters and packed documents. Whatever is
// recomputed, offloaded, gathered ahead or planned, the bits are those of keeping everything.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/checker.h"
#include "tests/tools/equality.h"
#include "tests/tools/equality_models.h"
#include "tests/tools/slow_machine.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::OtherEqualityModels;
using ::reprise::testing::PlanCell;
using ::reprise::testing::RunOnLocalRanks;

void ExpectSameBits(const EqualityCell& cell, const std::vector<CellOutcome>& expected) {
  SCOPED_TRACE(cell.Name());
  const auto job = PlanCell(cell);
  ASSERT_TRUE(Check(job->schedule).ok()) << Check(job->schedule);
  const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
  for (size_t rank = 0; rank < outcome.size(); ++rank) {
    EXPECT_EQ(FirstDifference(outcome[rank], expected[rank]), "") << "on rank " << rank;
    for (const StepResult& step : outcome[rank].steps) EXPECT_EQ(step.peak_device_bytes, job->device_bytes());
  }
}

// checkpoint=auto half way from the smallest budget to that of keeping everything.
EqualityCell Planned(EqualityCell cell) {
  const auto everything = PlanCell(cell.Reference());
  cell.times = std::make_shared<const MachineTimes>(
      EstimateTimes(testing::SlowMachine(/*link=*/2e8, /*host=*/3e8), everything->schedule.kernels, cell.ranks));
  cell.checkpoint = "auto";
  cell.offload = true;
  cell.memory_budget = int64_t{1} << 40;
  const auto unlimited = PlanCell(cell);
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
  const auto smallest = FindSmallestBudgets(*unlimited, kernels);
  EXPECT_TRUE(smallest.ok()) << smallest.status();
  cell.memory_budget = (smallest->offloaded + unlimited->device_bytes()) / 2;
  return cell;
}

class ModelEqualityTest : public ::testing::TestWithParam<std::string> {
 protected:
  void ExpectAllPolicies(EqualityCell cell) {
    cell.model = GetParam();
    const std::vector<CellOutcome> expected = RunOnLocalRanks(cell.Reference());
    ExpectSameBits(cell.Reference(), expected);
    for (const auto& [policy, offload] : std::vector<std::pair<std::string, bool>>{
             {"all", false}, {"all", true}, {"every:2", true}, {"sqrt", false}, {"selective", false}}) {
      cell.checkpoint = policy;
      cell.offload = offload;
      ExpectSameBits(cell, expected);
    }
    ExpectSameBits(Planned(cell), expected);
  }
};

TEST_P(ModelEqualityTest, OneRank) { ExpectAllPolicies({}); }
TEST_P(ModelEqualityTest, FullSharding) { ExpectAllPolicies({.dropout = 0.1, .ranks = 2, .accumulation = 2}); }
TEST_P(ModelEqualityTest, ShardedGradientsInBFloat16) {
  ExpectAllPolicies({.sharding = Sharding::kGradients, .dtype = DType::kBFloat16, .ranks = 3});
}
TEST_P(ModelEqualityTest, ShardedOptimizer) {
  ExpectAllPolicies({.sharding = Sharding::kOptimizer, .ranks = 2, .accumulation = 2});
}
TEST_P(ModelEqualityTest, NotSharded) {
  ExpectAllPolicies({.sharding = Sharding::kNone, .dtype = DType::kBFloat16, .dropout = 0.1, .ranks = 2});
}

// Without accumulation.
TEST_P(ModelEqualityTest, ShardingsAgree) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EqualityCell cell{.dtype = dtype, .dropout = 0.1, .ranks = 3, .model = GetParam()};
    const std::vector<CellOutcome> full = RunOnLocalRanks(cell);
    for (const Sharding sharding : {Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
      cell.sharding = sharding;
      ExpectSameBits(cell, full);
    }
  }
}

TEST_P(ModelEqualityTest, AnyStreamOrder) {
  const EqualityCell cell{.checkpoint = "every:2", .offload = true, .ranks = 2, .model = GetParam()};
  const std::vector<CellOutcome> expected = RunOnLocalRanks(cell.Reference());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell, {.random = true, .seed = seed});
    for (size_t rank = 0; rank < outcome.size(); ++rank) {
      EXPECT_EQ(FirstDifference(outcome[rank], expected[rank]), "") << "seed " << seed << ", rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelEqualityTest, ::testing::ValuesIn(OtherEqualityModels()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace reprise
