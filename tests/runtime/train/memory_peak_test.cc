// The predicted peak is the measured peak on every rank, and the arena is within its bound of the live bytes, on random
// jobs that train for a step.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "tests/tools/memory_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::AllItems;
using ::reprise::testing::ArenaBound;
using ::reprise::testing::FillRandomBatch;
using ::reprise::testing::LargestLiveSum;
using ::reprise::testing::MemoryJob;
using ::reprise::testing::RandomMemoryJob;
using ::reprise::testing::RunRanks;

void ExpectPlanWithinBounds(const JobPlan& plan) {
  const int64_t live = LargestLiveSum(plan.schedule, AllItems);
  EXPECT_EQ(plan.schedule.largest_live_sum, live);
  EXPECT_GE(plan.schedule.device_bytes, live);
  EXPECT_LE(plan.schedule.device_bytes, ArenaBound(live));
  if (plan.options.host_budget_bytes >= 0) {
    EXPECT_LE(plan.host_bytes(), plan.options.host_budget_bytes);
  }
}

void RunOneStep(const MemoryJob& what, const MachineOptions& machine) {
  const Model model = Gpt2(what.model);
  RunRanks(what.ranks, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(model, what.options, machine, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    if (communicator.rank() == 0) ExpectPlanWithinBounds(job.plan());
    ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
    const int64_t counted = FillRandomBatch(what, 1 + static_cast<uint64_t>(communicator.rank()), job);
    const auto result = job.Step({.seed = 1, .step = 0, .learning_rate = 1e-3, .counted_labels = counted});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->peak_device_bytes, job.plan().schedule.device_bytes);
    EXPECT_EQ(result->peak_host_bytes, job.plan().schedule.host_bytes);
  });
}

class PredictedPeakTest : public ::testing::TestWithParam<int> {};

TEST_P(PredictedPeakTest, IsTheMeasuredPeakOnEveryRank) {
  constexpr int kJobs = 50;
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < kJobs; ++i) {
    const MemoryJob what = RandomMemoryJob(random);
    SCOPED_TRACE(what.ToString());
    RunOneStep(what, {.stream_order = {.random = i % 3 == 0, .seed = static_cast<uint64_t>(i)}});
    if (HasFatalFailure() || HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PredictedPeakTest, ::testing::Range(0, 6));

TEST(MemoryBudget, HoldsExactlyWhatThePlanNeeds) {
  std::mt19937_64 random(99);
  KernelSet kernels({.threads = 1});
  for (int i = 0; i < 10; ++i) {
    MemoryJob what = RandomMemoryJob(random);
    SCOPED_TRACE(what.ToString());
    const auto plan = MakeJobPlan(Gpt2(what.model), what.options, what.ranks, kernels);
    ASSERT_TRUE(plan.ok()) << plan.status();
    what.options.memory_budget_bytes = (*plan)->device_bytes();
    EXPECT_TRUE(MakeJobPlan(Gpt2(what.model), what.options, what.ranks, kernels).ok());
    --what.options.memory_budget_bytes;
    const absl::Status refused = MakeJobPlan(Gpt2(what.model), what.options, what.ranks, kernels).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(absl::StrContains(refused.message(), std::to_string((*plan)->device_bytes()))) << refused;
  }
}

}  // namespace
}  // namespace reprise
