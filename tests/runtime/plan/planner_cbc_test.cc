// The planner against COIN-OR CBC, an exact solver of integer programs: chains of up to 30 layers on one stream, where
// the time of a plan is a sum and the problem can be written down as rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "runtime/plan/planner.h"
#include "tests/tools/brute_force.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/plan_milp.h"
#include "tests/tools/plan_oracle.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

// Times and sizes are small whole numbers, exact in CBC's doubles.
RandomProfileSpec OneStream(int64_t smallest_layers, int64_t largest_layers) {
  return {.smallest_layers = smallest_layers,
          .largest_layers = largest_layers,
          .transfers = false,
          .largest_units = 2000,
          .largest_ns = 20000};
}

// Between the least and the largest peak of some plans, in places just below, so that some budgets fit nothing.
int64_t SomeBudget(const Profile& profile, const PlanLimits& limits, std::mt19937_64& random) {
  PlanOracle oracle(profile);
  int64_t least = INT64_MAX;
  int64_t largest = 0;
  for (int i = 0; i <= 20; ++i) {
    const int64_t peak = oracle.Cost(RandomPlan(profile, limits, i / 20.0, random)).peak_bytes;
    least = std::min(least, peak);
    largest = std::max(largest, peak);
  }
  return least + (largest - least) * RandomBetween(random, -10, 90) / 100;
}

void ExpectPlanFits(const Profile& profile, const MilpAnswer& answer, int64_t budget_bytes) {
  const OracleCost cost = PlanOracle(profile).Cost(answer.plan);
  EXPECT_LE(cost.peak_bytes, budget_bytes) << "CBC's plan";
}

// False where CBC gave up: some problems have too many plans of nearly the same time for it.
bool CompareWithCbc(uint64_t seed) {
  SCOPED_TRACE(seed);
  const Profile profile = RandomProfile(seed, OneStream(7, 30));
  std::mt19937_64 random(seed);
  PlanLimits limits{.longest_segment = RandomBetween(random, 1, 5)};
  limits.memory_budget_bytes = SomeBudget(profile, limits, random);
  const MilpAnswer answer = PlanMilp(profile, limits.longest_segment).Fastest(limits.memory_budget_bytes);
  if (!answer.solved) return false;
  const absl::StatusOr<Solution> solution = Solve(profile, limits);
  EXPECT_EQ(solution.ok(), answer.feasible) << solution.status();
  if (!answer.feasible || !solution.ok()) return true;
  PlanOracle oracle(profile);
  ExpectPlanFits(profile, answer, limits.memory_budget_bytes);
  EXPECT_EQ(WhyOutsideLimits(profile, limits, solution->plan), "");
  EXPECT_LE(oracle.Cost(solution->plan).peak_bytes, limits.memory_budget_bytes);
  EXPECT_EQ(oracle.Cost(solution->plan).time_ns, oracle.Cost(answer.plan).time_ns)
      << PlanLetters(profile, solution->plan) << "\nCBC: " << PlanLetters(profile, answer.plan);
  EXPECT_EQ(solution->bound_ns, oracle.Cost(answer.plan).time_ns);
  return true;
}

// Chains by seed until CBC has solved `count`; it may give up on one in ten.
void CompareChainsWithCbc(uint64_t first_seed, int count) {
  int solved = 0;
  uint64_t seed = first_seed;
  for (; solved < count && seed < first_seed + count + count / 10; ++seed) solved += CompareWithCbc(seed) ? 1 : 0;
  EXPECT_EQ(solved, count) << "of " << seed - first_seed;
}

void CompareSmallestWithCbc(uint64_t seed) {
  SCOPED_TRACE(seed);
  const Profile profile = RandomProfile(seed, OneStream(7, 30));
  std::mt19937_64 random(seed);
  const PlanLimits limits{.longest_segment = RandomBetween(random, 1, 5)};
  const MilpAnswer answer = PlanMilp(profile, limits.longest_segment).SmallestPeak();
  ASSERT_TRUE(answer.feasible) << answer.log;
  ExpectPlanFits(profile, answer, answer.objective);
  const absl::StatusOr<int64_t> smallest = SmallestBudget(profile, limits);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  EXPECT_EQ(*smallest, answer.objective);
}

TEST(PlannerCbc, FastestOfFortyChains) {
  if (!HasCbc()) GTEST_SKIP() << "cbc is not installed (Debian: coinor-cbc)";
  CompareChainsWithCbc(0, 40);
}

TEST(PlannerCbc, SmallestBudgetOfTwentyChains) {
  if (!HasCbc()) GTEST_SKIP() << "cbc is not installed (Debian: coinor-cbc)";
  for (uint64_t seed = 0; seed < 20; ++seed) CompareSmallestWithCbc(seed);
}

TEST(PlannerCbc, FastestOfTwoHundredChainsLong) {
  if (!HasCbc()) GTEST_SKIP() << "cbc is not installed (Debian: coinor-cbc)";
  CompareChainsWithCbc(1000, 200);
}

}  // namespace
}  // namespace reprise::testing
