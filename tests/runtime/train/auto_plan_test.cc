// checkpoint=auto: every budget gives the bits of keeping everything, in the memory that was predicted and never more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/checker.h"
#include "tests/tools/equality.h"
#include "tests/tools/slow_machine.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::PlanCell;
using ::reprise::testing::RunOnLocalRanks;
using ::reprise::testing::TryPlanCell;
using ::testing::HasSubstr;

KernelSet Kernels() { return KernelSet({.kind = KernelKind::kCpu, .threads = 1}); }

class AutoPlanTest : public ::testing::TestWithParam<EqualityCell> {
 protected:
  AutoPlanTest() : cell_(GetParam()) {
    const auto everything = PlanCell(cell_.Reference());
    cell_.times = std::make_shared<const MachineTimes>(
        EstimateTimes(testing::SlowMachine(/*link=*/2e8, /*host=*/3e8), everything->schedule.kernels, cell_.ranks));
    cell_.checkpoint = "auto";
    cell_.memory_budget = int64_t{1} << 40;
    const auto unlimited = PlanCell(cell_);
    largest_ = unlimited->device_bytes();
    KernelSet kernels = Kernels();
    const auto smallest = FindSmallestBudgets(*unlimited, kernels);
    smallest_ = cell_.offload ? smallest->offloaded : smallest->resident;
  }

  EqualityCell cell_;
  int64_t smallest_ = 0;
  int64_t largest_ = 0;
};

TEST_P(AutoPlanTest, SameBitsWithinEveryBudget) {
  const std::vector<CellOutcome> expected = RunOnLocalRanks(cell_.Reference());
  constexpr int kBudgets = 5;
  std::set<int64_t> peaks;
  int64_t time = INT64_MAX;
  for (int i = 0; i <= kBudgets; ++i) {
    cell_.memory_budget = smallest_ + (largest_ - smallest_) * i / kBudgets;
    SCOPED_TRACE(absl::StrCat("budget ", cell_.memory_budget));
    const auto job = PlanCell(cell_);
    ASSERT_TRUE(Check(job->schedule).ok()) << Check(job->schedule);
    EXPECT_LE(job->device_bytes(), cell_.memory_budget);
    EXPECT_LE(job->estimate->class_ns, time) << "more memory made the step slower";
    EXPECT_GE(job->estimate->class_ns, job->estimate->bound_ns);
    EXPECT_LE(job->estimate->step_ns, job->estimate->class_ns * 1001 / 1000);
    EXPECT_GE(job->device_bytes(), peaks.empty() ? 0 : *peaks.rbegin()) << "less memory gave a higher peak";
    time = job->estimate->class_ns;
    const bool known = !peaks.insert(job->device_bytes()).second;
    if (known) continue;  // the same plan again
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell_);
    for (size_t rank = 0; rank < outcome.size(); ++rank) {
      EXPECT_EQ(FirstDifference(outcome[rank], expected[rank]), "") << "on rank " << rank;
      for (const StepResult& step : outcome[rank].steps) {
        EXPECT_EQ(step.peak_device_bytes, job->device_bytes()) << "on rank " << rank;
      }
    }
  }
  // Under `none` whole gradients make the peak, whatever is kept.
  EXPECT_GE(peaks.size(), cell_.sharding == Sharding::kNone ? 1U : 3U) << "the budgets made no difference";
}

TEST_P(AutoPlanTest, OneByteBelowTheSmallestIsRefused) {
  cell_.memory_budget = smallest_;
  EXPECT_TRUE(TryPlanCell(cell_).ok()) << TryPlanCell(cell_).status();
  cell_.memory_budget = smallest_ - 1;
  const absl::Status refused = TryPlanCell(cell_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat(" ", smallest_, " bytes")));
}

TEST_P(AutoPlanTest, TimesOfAnotherModelAreRefused) {
  cell_.times = std::make_shared<const MachineTimes>();
  const absl::Status refused = TryPlanCell(cell_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("kernel"));
}

std::vector<EqualityCell> Cells() {
  return {{.sharding = Sharding::kFull, .ranks = 1, .layers = 5},
          {.offload = true, .sharding = Sharding::kFull, .ranks = 2, .layers = 4},
          {.offload = true,
           .sharding = Sharding::kFull,
           .dtype = DType::kBFloat16,
           .dropout = 0.1,
           .ranks = 3,
           .layers = 3},
          {.sharding = Sharding::kNone, .ranks = 2, .accumulation = 2},
          {.offload = true, .sharding = Sharding::kGradients, .ranks = 2, .layers = 5}};
}

INSTANTIATE_TEST_SUITE_P(Cells, AutoPlanTest, ::testing::ValuesIn(Cells()), [](const auto& info) {
  return info.param.Reference().Name() + (info.param.offload ? "_may_offload" : "");
});

}  // namespace
}  // namespace reprise
