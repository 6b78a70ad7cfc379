// What must hold of the planner on chains too long for brute force: no plan that anybody thinks of is faster, and a
// lower budget gives neither a shorter time nor a higher peak.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/plan/planner.h"
#include "tests/tools/brute_force.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/plan_oracle.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

// Layers that all differ, up to 8 options, every stream in use.
Profile ChainOfAllStreams(uint64_t seed, int64_t layers) {
  RandomProfileSpec spec{.smallest_layers = layers, .largest_layers = layers, .largest_options = 8, .wild = false};
  Profile profile = RandomProfile(seed, spec);
  profile.gathers = profile.reduces = true;
  return profile;
}

PlanLimits AllChoices(int smallest_prefetch, int largest_prefetch) {
  return {.offloads = true, .smallest_prefetch = smallest_prefetch, .largest_prefetch = largest_prefetch};
}

// `plan` with a run of layers taken from another, between two places where both start segments.
Plan Spliced(const Plan& plan, const Plan& other, std::mt19937_64& random) {
  std::vector<size_t> cuts;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.layers[i].starts_segment && other.layers[i].starts_segment) cuts.push_back(i);
  }
  cuts.push_back(plan.layers.size());
  const auto last = static_cast<int64_t>(cuts.size()) - 1;
  const int64_t from = RandomBetween(random, 0, last - 1);
  const int64_t to = RandomBetween(random, from + 1, std::min(last, from + 3));
  const auto at = [&cuts](int64_t cut) { return static_cast<int64_t>(cuts[static_cast<size_t>(cut)]); };
  Plan spliced = plan;
  std::copy(other.layers.begin() + at(from), other.layers.begin() + at(to), spliced.layers.begin() + at(from));
  return spliced;
}

class LongChain {
 public:
  LongChain(uint64_t seed, int64_t layers, const PlanLimits& limits)
      : profile_(ChainOfAllStreams(seed, layers)), limits_(limits), oracle_(profile_), random_(seed) {
    for (int i = 0; i < 200; ++i) {
      drawn_.push_back(RandomPlan(profile_, limits_, i / 199.0, random_));
      costs_.push_back(oracle_.Cost(drawn_.back()));
      peaks_.push_back(costs_.back().peak_bytes);
    }
    std::sort(peaks_.begin(), peaks_.end());
  }

  // A budget that so many in a hundred of the drawn plans fit.
  int64_t BudgetFor(int64_t percent) const { return peaks_[peaks_.size() * static_cast<size_t>(percent) / 100]; }

  void ExpectNoneFaster(int64_t budget_bytes);
  void ExpectLessMemoryNeverFaster(int steps);

 private:
  void ExpectNotFaster(const OracleCost& cost, const Plan& plan, const Solution& solution) {
    if (cost.peak_bytes > limits_.memory_budget_bytes || cost.host_bytes > limits_.host_budget_bytes) return;
    ++fitting_;
    EXPECT_GE(cost.time_ns, solution.cost.time_ns) << PlanLetters(profile_, plan);
    EXPECT_GE(cost.time_ns, solution.bound_ns) << PlanLetters(profile_, plan);
  }

  const Profile profile_;
  PlanLimits limits_;
  PlanOracle oracle_;
  std::mt19937_64 random_;
  std::vector<Plan> drawn_;
  std::vector<OracleCost> costs_;
  std::vector<int64_t> peaks_;
  int fitting_ = 0;
};

void LongChain::ExpectNoneFaster(int64_t budget_bytes) {
  limits_.memory_budget_bytes = budget_bytes;
  const absl::StatusOr<Solution> solution = Solve(profile_, limits_);
  ASSERT_TRUE(solution.ok()) << solution.status();
  ASSERT_EQ(WhyOutsideLimits(profile_, limits_, solution->plan), "");
  SCOPED_TRACE(absl::StrCat("budget ", budget_bytes, ": ", PlanLetters(profile_, solution->plan)));
  const OracleCost own = oracle_.Cost(solution->plan);
  EXPECT_EQ(own.time_ns, solution->cost.time_ns);
  EXPECT_EQ(own.peak_bytes, solution->cost.peak_bytes);
  EXPECT_LE(own.peak_bytes, budget_bytes);
  fitting_ = 0;
  for (size_t i = 0; i < drawn_.size(); ++i) ExpectNotFaster(costs_[i], drawn_[i], *solution);
  EXPECT_GT(fitting_, 0);
  // Its own neighbours are the ones that come near.
  for (int i = 0; i < 200; ++i) {
    const Plan other = RandomPlan(profile_, limits_, static_cast<double>(RandomBetween(random_, 0, 10)) / 10, random_);
    const Plan near = Spliced(solution->plan, other, random_);
    ExpectNotFaster(oracle_.Cost(near), near, *solution);
  }
}

void LongChain::ExpectLessMemoryNeverFaster(int steps) {
  const absl::StatusOr<int64_t> smallest = SmallestBudget(profile_, limits_);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  EXPECT_LE(*smallest, peaks_.front());
  int64_t time_before = 0;
  int64_t peak_before = INT64_MAX;
  for (int i = 0; i <= steps && !::testing::Test::HasFailure(); ++i) {
    limits_.memory_budget_bytes = peaks_.back() - (peaks_.back() - *smallest) / steps * i;
    if (i == steps) limits_.memory_budget_bytes = *smallest;
    SCOPED_TRACE(limits_.memory_budget_bytes);
    const absl::StatusOr<Solution> solution = Solve(profile_, limits_);
    ASSERT_TRUE(solution.ok()) << solution.status();
    const OracleCost own = oracle_.Cost(solution->plan);
    EXPECT_LE(own.peak_bytes, limits_.memory_budget_bytes);
    EXPECT_GE(own.time_ns, time_before);
    EXPECT_LE(own.peak_bytes, peak_before);
    EXPECT_LE(solution->bound_ns, own.time_ns);
    time_before = own.time_ns;
    peak_before = own.peak_bytes;
  }
  limits_.memory_budget_bytes = *smallest - 1;
  EXPECT_EQ(Solve(profile_, limits_).status().code(), absl::StatusCode::kResourceExhausted);
}

void ExpectNoneFasterOnChains(uint64_t first, uint64_t count, int64_t layers, const PlanLimits& limits) {
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    LongChain chain(seed, layers, limits);
    for (const int64_t percent : {5, 30, 70}) chain.ExpectNoneFaster(chain.BudgetFor(percent));
  }
}

void ExpectLessMemoryNeverFasterOnChains(uint64_t first, uint64_t count, int64_t layers, const PlanLimits& limits) {
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    LongChain(seed, layers, limits).ExpectLessMemoryNeverFaster(50);
  }
}

TEST(PlannerProperty, NoPlanOfThirtyLayersIsFaster) { ExpectNoneFasterOnChains(0, 3, 30, AllChoices(0, 3)); }
TEST(PlannerProperty, NoPlanOf126LayersIsFaster) { ExpectNoneFasterOnChains(100, 1, 126, AllChoices(1, 1)); }
TEST(PlannerProperty, LessMemoryIsNeverFasterOnThirtyLayers) {
  ExpectLessMemoryNeverFasterOnChains(0, 1, 30, AllChoices(1, 1));
}
TEST(PlannerProperty, LessMemoryIsNeverFasterOn126Layers) {
  ExpectLessMemoryNeverFasterOnChains(100, 1, 126, AllChoices(1, 1));
}

TEST(PlannerPropertyLong, NoPlanIsFaster) {
  ExpectNoneFasterOnChains(1000, 12, 30, AllChoices(0, 3));
  ExpectNoneFasterOnChains(1100, 5, 126, AllChoices(1, 1));
}
TEST(PlannerPropertyLong, LessMemoryIsNeverFaster) {
  ExpectLessMemoryNeverFasterOnChains(2000, 3, 30, AllChoices(1, 1));
  ExpectLessMemoryNeverFasterOnChains(101, 1, 126, AllChoices(1, 1));
}

}  // namespace
}  // namespace reprise::testing
