// Long chains of equal layers with every stream in use and every prefetch depth allowed: a few depths are searched, the
// others are only bounded, and what is said of the distance to the fastest plan is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "runtime/plan/planner.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMicrosecond = 1000;

BlockProfile Layer() {
  BlockProfile layer;
  layer.boundary_bytes = 256 * kMiB;
  layer.forward_ns = 85'789 * kMicrosecond;
  layer.backward_ns = 172'639 * kMicrosecond;
  layer.gather_ns = 19'146 * kMicrosecond;
  layer.reduce_ns = 38'272 * kMicrosecond;
  layer.offload_ns = 5'373 * kMicrosecond;
  layer.reload_ns = 5'373 * kMicrosecond;
  layer.whole_bytes = 6080 * kMiB;
  layer.gradient_held_bytes = 12160 * kMiB;
  layer.gradient_left_bytes = 24 * kMiB;
  layer.recompute_through_ns = 85'789 * kMicrosecond;
  layer.recompute_through_bytes = 4836 * kMiB;
  layer.remade_bytes = 4068 * kMiB;
  const int64_t kept_mib[] = {3812, 2468, 544, 16, 0};
  const int64_t recompute_us[] = {0, 1522, 48'897, 63'060, 63'503};
  for (int i = 0; i < 5; ++i) {
    OptionProfile option;
    option.keep = i == 0 ? Keep::kEverything : i < 4 ? Keep::kSet : Keep::kBoundary;
    option.set = option.keep == Keep::kSet ? i - 1 : -1;
    option.kept_bytes = kept_mib[i] * kMiB;
    option.recompute_ns = recompute_us[i] * kMicrosecond;
    option.forward_bytes = option.kept_bytes + 3008 * kMiB;
    option.forward_bytes_dropped = option.kept_bytes + 2752 * kMiB;
    option.recompute_bytes = i == 0 ? 0 : 4324 * kMiB;
    option.backward_bytes = 18148 * kMiB;
    layer.options.push_back(option);
  }
  return layer;
}

// Of the proportions of a large language model that is sharded over many ranks.
Profile Model(int64_t layers) {
  Profile profile;
  profile.gathers = profile.reduces = true;
  BlockProfile end = Layer();
  end.options.clear();
  end.backward_bytes = end.gradient_held_bytes;
  profile.blocks.push_back(end);
  profile.blocks.front().boundary_bytes = 0;
  profile.blocks.insert(profile.blocks.end(), static_cast<size_t>(layers), Layer());
  end.forward_bytes = 16867 * kMiB;
  end.backward_ns = 0;
  profile.blocks.push_back(end);
  return profile;
}

PlanLimits AllDepths() { return {.offloads = true, .smallest_prefetch = 0, .largest_prefetch = 3}; }

PlanLimits OnlyDepth(int depth) { return {.offloads = true, .smallest_prefetch = depth, .largest_prefetch = depth}; }

Solution MustSolve(const Profile& profile, PlanLimits limits, int64_t budget_bytes) {
  limits.memory_budget_bytes = budget_bytes;
  const absl::StatusOr<Solution> solution = Solve(profile, limits);
  EXPECT_TRUE(solution.ok()) << solution.status();
  return solution.value_or(Solution{});
}

// The answer is the best of the depths, each searched for itself, of equally good ones the smallest.
void ExpectBestOfDepths(const Profile& profile, int64_t budget_bytes) {
  const Solution solution = MustSolve(profile, AllDepths(), budget_bytes);
  ASSERT_TRUE(solution.exact());
  int64_t fastest_ns = INT64_MAX;
  for (int depth = 0; depth <= 3; ++depth) {
    PlanLimits limits = OnlyDepth(depth);
    limits.memory_budget_bytes = budget_bytes;
    const absl::StatusOr<Solution> alone = Solve(profile, limits);
    if (!alone.ok()) continue;  // needs more memory
    ASSERT_TRUE(alone->exact());
    fastest_ns = std::min(fastest_ns, alone->cost.time_ns);
    if (depth == solution.plan.prefetch) {
      EXPECT_EQ(PlanLetters(profile, solution.plan), PlanLetters(profile, alone->plan));
    }
  }
  EXPECT_EQ(solution.cost.time_ns, fastest_ns);
}

TEST(PlannerDepths, OtherDepthsOfALongChainAreOnlyBounded) {
  const Profile profile = Model(126);
  const int64_t smallest = *SmallestBudget(profile, AllDepths());
  for (const int64_t more_mib : {0, 1000, 8000, 30000}) {
    SCOPED_TRACE(more_mib);
    const int64_t budget = smallest + more_mib * kMiB;
    const Solution solution = MustSolve(profile, AllDepths(), budget);
    EXPECT_TRUE(solution.exact());
    const Solution alone = MustSolve(profile, OnlyDepth(solution.plan.prefetch), budget);
    EXPECT_EQ(PlanLetters(profile, alone.plan), PlanLetters(profile, solution.plan));
    EXPECT_GT(alone.labels, 0);
    EXPECT_EQ(solution.labels, alone.labels) << "another depth was searched, too";
    EXPECT_LE(solution.labels, 2000 * 126);
  }
}

TEST(PlannerDepths, TheBestOfAllDepths) {
  const Profile profile = Model(8);
  const int64_t smallest = *SmallestBudget(profile, AllDepths());
  const int64_t largest = MustSolve(profile, AllDepths(), INT64_MAX).cost.peak_bytes;
  for (int step = 0; step <= 5; ++step) ExpectBestOfDepths(profile, smallest + (largest - smallest) / 5 * step);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Profile random = RandomProfile(seed, {.smallest_layers = 5, .largest_layers = 7});
    random.gathers = true;
    const int64_t least = *SmallestBudget(random, AllDepths());
    for (const int64_t budget : {least, least + least / 10, INT64_MAX}) ExpectBestOfDepths(random, budget);
  }
}

// What a planner works out once for all budgets must not depend on those that it was asked for before.
TEST(PlannerDepths, AnAnswerDoesNotDependOnEarlierOnes) {
  const Profile profile = Model(24);
  absl::StatusOr<Planner> planner = Planner::Create(profile, AllDepths());
  ASSERT_TRUE(planner.ok()) << planner.status();
  const int64_t smallest = planner->SmallestBudget();
  for (const int64_t more_mib : {20000, 0, 30, 40000, 500, 0}) {
    const int64_t budget = smallest + more_mib * kMiB;
    const absl::StatusOr<Solution> again = planner->Solve(budget);
    ASSERT_TRUE(again.ok()) << again.status();
    const Solution first = MustSolve(profile, AllDepths(), budget);
    EXPECT_EQ(PlanLetters(profile, again->plan), PlanLetters(profile, first.plan));
    EXPECT_EQ(again->bound_ns, first.bound_ns);
    EXPECT_EQ(again->labels, first.labels);
  }
}

// Where labels run out, the fastest plan lies between what is proven and what was found.
TEST(PlannerDepths, TheGapHoldsTheFastestPlan) {
  const Profile profile = Model(40);
  int inexact = 0;
  const int64_t smallest = *SmallestBudget(profile, AllDepths());
  for (const int64_t more_mib : {300, 3000, 9000, 20000, 33333}) {
    SCOPED_TRACE(more_mib);
    const Solution exact = MustSolve(profile, AllDepths(), smallest + more_mib * kMiB);
    ASSERT_TRUE(exact.exact());
    for (const int64_t most_labels : {41, 200, 1000}) {
      PlanLimits few = AllDepths();
      few.most_labels = most_labels;
      const Solution rough = MustSolve(profile, few, smallest + more_mib * kMiB);
      EXPECT_LE(rough.bound_ns, exact.cost.time_ns);
      EXPECT_GE(rough.cost.time_ns, exact.cost.time_ns);
      inexact += rough.exact() ? 0 : 1;
    }
  }
  EXPECT_GT(inexact, 0);
}

}  // namespace
}  // namespace reprise::testing
