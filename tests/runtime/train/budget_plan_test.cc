#include "runtime/train/budget_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/tools/random_profile.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

// An arena that is up to 3 % larger than the live bytes, by a rule that knows nothing of the planner.
int64_t Arena(const Profile& profile, const Plan& plan, bool tight) {
  const int64_t peak = CostOf(profile, plan)->peak_bytes;
  uint64_t mix = 1469598103934665603ULL;
  for (const LayerPlan& layer : plan.layers) {
    mix = (mix ^ (static_cast<uint64_t>(layer.set + 2) * 3 + (layer.starts_segment ? 1 : 0))) * 1099511628211ULL;
  }
  return tight ? peak : peak + static_cast<int64_t>(mix % 4) * peak / 100;
}

// So many layers like the first of a random chain.
Profile EqualChain(int layers) {
  Profile profile =
      testing::RandomProfile(3, {.smallest_layers = 3, .largest_layers = 3, .smallest_options = 4, .wild = false});
  const BlockProfile layer = profile.blocks[1];
  const BlockProfile head = profile.blocks.back();
  profile.blocks.resize(1);
  profile.blocks.resize(static_cast<size_t>(layers) + 1, layer);
  profile.blocks.push_back(head);
  return profile;
}

class BudgetPlanTest : public ::testing::TestWithParam<int> {
 protected:
  BudgetPlanTest() : profile_(testing::RandomProfile(GetParam(), {.smallest_layers = 3, .largest_layers = 8})) {
    Plan everything;
    everything.layers.resize(static_cast<size_t>(profile_.layer_count()));
    largest_ = CostOf(profile_, everything)->peak_bytes * 11 / 10;
  }

  ArenaBytes arena(bool tight) const {
    return [this, tight](const Plan& plan) -> absl::StatusOr<int64_t> { return Arena(profile_, plan, tight); };
  }

  const Profile profile_;
  const PlanLimits limits_ = {.longest_segment = 3};
  int64_t largest_ = 0;
};

TEST_P(BudgetPlanTest, NeverOverTheBudgetAndNeverFasterBelow) {
  const auto smallest = SmallestArena(profile_, limits_, arena(false));
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  int64_t time = INT64_MAX;
  int64_t peak = 0;
  for (int i = 0; i <= 20; ++i) {
    PlanLimits limits = limits_;
    limits.memory_budget_bytes = smallest->bytes + (std::max(largest_, smallest->bytes) - smallest->bytes) * i / 20;
    const auto best = PlanForBudget(profile_, limits, arena(false));
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_LE(best->arena_bytes, limits.memory_budget_bytes);
    EXPECT_EQ(best->arena_bytes, Arena(profile_, best->solution.plan, false));
    EXPECT_LE(best->solution.cost.time_ns, time) << "a larger budget gave a slower plan";
    EXPECT_GE(best->arena_bytes, peak) << "a smaller budget gave a higher peak";
    time = best->solution.cost.time_ns;
    peak = best->arena_bytes;
  }
}

TEST_P(BudgetPlanTest, OneByteBelowTheSmallestIsRefused) {
  const auto smallest = SmallestArena(profile_, limits_, arena(false));
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  PlanLimits limits = limits_;
  limits.memory_budget_bytes = smallest->bytes;
  EXPECT_TRUE(PlanForBudget(profile_, limits, arena(false)).ok());
  EXPECT_TRUE(*BudgetHolds(profile_, limits, arena(false)));
  --limits.memory_budget_bytes;
  EXPECT_FALSE(*BudgetHolds(profile_, limits, arena(false)));
  EXPECT_TRUE(smallest->proven);
  const absl::Status refused = PlanForBudget(profile_, limits, arena(false)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("is ", smallest->bytes, " bytes")));
}

TEST_P(BudgetPlanTest, ATightArenaNeedsOneTry) {
  PlanLimits limits = limits_;
  limits.memory_budget_bytes = largest_;
  const auto best = PlanForBudget(profile_, limits, arena(true));
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->plans_tried, 1);
  EXPECT_EQ(best->solution.cost.time_ns, Solve(profile_, limits)->cost.time_ns);
}

// A chain of many equal layers has thousands of answers, and each is compiled to see its arena.
TEST(BudgetPlan, LooksAtFewAnswersOfALongChain) {
  const Profile profile = EqualChain(60);
  for (const bool offloads : {false, true}) {
    const PlanLimits limits = {.memory_budget_bytes = INT64_MAX, .offloads = offloads};
    int compiled = 0;
    // Larger than the live bytes by what the smallest plans would save, as where an arena cannot be filled.
    const ArenaBytes arena = [&](const Plan& plan) -> absl::StatusOr<int64_t> {
      ++compiled;
      return CostOf(profile, plan)->peak_bytes * 5 / 4;
    };
    const auto smallest = SmallestArena(profile, limits, arena);
    ASSERT_TRUE(smallest.ok()) << smallest.status();
    EXPECT_LE(compiled, 200);  // those by hand among them
    PlanLimits at = limits;
    at.memory_budget_bytes = smallest->bytes;
    compiled = 0;
    EXPECT_TRUE(PlanForBudget(profile, at, arena).ok());
    // The fastest plan of ample memory is the first that is looked at, and no plan without offload can be faster.
    compiled = 0;
    at.memory_budget_bytes = INT64_MAX;
    EXPECT_EQ(PlanForBudget(profile, at, arena)->plans_tried, 1);
    EXPECT_EQ(compiled, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, BudgetPlanTest, ::testing::Range(1, 21));

}  // namespace
}  // namespace reprise
