// The integer program that CBC solves is itself checked.
#include "tests/tools/plan_milp.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>

#include "tests/tools/brute_force.h"
#include "tests/tools/plan_oracle.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

// The rows say what the document says: on chains small enough, CBC agrees with trying all.
TEST(PlanMilp, AgreesWithBruteForce) {
  if (!HasCbc()) GTEST_SKIP() << "cbc is not installed (Debian: coinor-cbc)";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const Profile profile =
        RandomProfile(seed, {.smallest_layers = 1, .transfers = false, .largest_units = 2000, .largest_ns = 20000});
    std::mt19937_64 random(seed);
    const PlanLimits limits{.longest_segment = RandomBetween(random, 1, 4)};
    const BruteForce all(profile, limits);
    const PlanMilp milp(profile, limits.longest_segment);
    const int64_t budget = all.SomePeak(random) - RandomBetween(random, 0, 1);
    const MilpAnswer answer = milp.Fastest(budget);
    ASSERT_TRUE(answer.solved) << answer.log;
    const std::optional<int64_t> fastest = all.FastestNs(budget, INT64_MAX);
    ASSERT_EQ(answer.feasible, fastest.has_value());
    if (answer.feasible) {
      EXPECT_LE(PlanOracle(profile).Cost(answer.plan).peak_bytes, budget);
      EXPECT_EQ(PlanOracle(profile).Cost(answer.plan).time_ns, *fastest);
    }
    const MilpAnswer smallest = milp.SmallestPeak();
    ASSERT_TRUE(smallest.feasible) << smallest.log;
    EXPECT_EQ(smallest.objective, all.SmallestBudget(INT64_MAX));
  }
}

}  // namespace
}  // namespace reprise::testing
