// CostOf against the oracle: random plans of random chains.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "runtime/plan/plan_cost.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/plan_oracle.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

void ExpectSameCost(const PlanCost& stated, const OracleCost& own) {
  EXPECT_EQ(stated.time_ns, own.time_ns);
  EXPECT_EQ(stated.peak_bytes, own.peak_bytes);
  EXPECT_EQ(stated.host_bytes, own.host_bytes);
}

void CheckCosts(uint64_t seed, const RandomProfileSpec& spec, int plans) {
  SCOPED_TRACE(seed);
  const Profile profile = RandomProfile(seed, spec);
  std::mt19937_64 random(seed);
  PlanOracle oracle(profile);
  for (int i = 0; i < plans && !::testing::Test::HasFailure(); ++i) {
    const PlanLimits limits = RandomLimits(profile, random);
    const double thrift = static_cast<double>(RandomBetween(random, 0, 10)) / 10;
    const Plan plan = RandomPlan(profile, limits, thrift, random);
    const absl::StatusOr<PlanCost> cost = CostOf(profile, plan);
    ASSERT_TRUE(cost.ok()) << cost.status() << PlanLetters(profile, plan);
    ExpectSameCost(*cost, oracle.Cost(plan));
    if (::testing::Test::HasFailure()) ADD_FAILURE() << PlanLetters(profile, plan) << "\n" << oracle.Explain(plan);
  }
}

TEST(PlanCost, EqualsTheOracleOnRandomPlans) {
  for (uint64_t seed = 0; seed < 2000 && !HasFailure(); ++seed) CheckCosts(seed, {}, 20);
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) CheckCosts(seed, {.largest_layers = 30}, 10);
  for (uint64_t seed = 0; seed < 4 && !HasFailure(); ++seed) {
    CheckCosts(seed, {.smallest_layers = 500, .largest_layers = 1000}, 2);
  }
}

}  // namespace
}  // namespace reprise::testing
