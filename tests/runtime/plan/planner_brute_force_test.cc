// The planner against brute force: small random chains, every plan of the class priced by the oracle, which shares no
// code with the planner. Fastest time, smallest budget, stated cost and ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/plan/plan_cost.h"
#include "runtime/plan/planner.h"
#include "tests/tools/brute_force.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/plan_oracle.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

std::string Words(const PlanLimits& limits) {
  return absl::StrCat("budget ", limits.memory_budget_bytes, ", host ", limits.host_budget_bytes, ", offloads ",
                      limits.offloads, ", stays ", limits.stays_gathered, ", segments to ", limits.longest_segment,
                      ", prefetch ", limits.smallest_prefetch, "..", limits.largest_prefetch);
}

void ExpectSameCost(const PlanCost& stated, const OracleCost& own) {
  EXPECT_EQ(stated.time_ns, own.time_ns);
  EXPECT_EQ(stated.peak_bytes, own.peak_bytes);
  EXPECT_EQ(stated.host_bytes, own.host_bytes);
}

// One chain under one host budget; the memory budget is what varies.
class ChainCheck {
 public:
  ChainCheck(const SmallChain& chain, const BruteForce& all, int64_t host_budget_bytes)
      : profile_(chain.profile), all_(all), limits_(chain.limits), oracle_(chain.profile) {
    limits_.host_budget_bytes = host_budget_bytes;
  }

  // Compares the answer for a budget with brute force; the peak of the answer, -1 where there is none.
  int64_t Check(int64_t budget_bytes);

  void CheckSmallest() {
    const absl::StatusOr<int64_t> smallest = SmallestBudget(profile_, limits_);
    ASSERT_TRUE(smallest.ok()) << smallest.status();
    EXPECT_EQ(*smallest, all_.SmallestBudget(limits_.host_budget_bytes)) << Words(limits_);
    EXPECT_GE(Check(*smallest), 0);
    if (*smallest > 0) {
      EXPECT_EQ(Check(*smallest - 1), -1);
    }
  }

  // From no budget down, each time to one byte below the answer: where every trade of time for memory must be found.
  void WalkDown(int most_steps) {
    int64_t budget = INT64_MAX;
    for (int i = 0; i < most_steps && budget >= 0 && !::testing::Test::HasFailure(); ++i) budget = Check(budget) - 1;
  }

 private:
  void CheckAnswer(const Solution& solution, int64_t fastest_ns);

  const Profile& profile_;
  const BruteForce& all_;
  PlanLimits limits_;
  PlanOracle oracle_;
};

void ChainCheck::CheckAnswer(const Solution& solution, int64_t fastest_ns) {
  ASSERT_EQ(WhyOutsideLimits(profile_, limits_, solution.plan), "");
  SCOPED_TRACE(PlanLetters(profile_, solution.plan));
  EXPECT_EQ(solution.cost.time_ns, fastest_ns);
  EXPECT_EQ(solution.bound_ns, fastest_ns);
  EXPECT_LE(solution.cost.peak_bytes, limits_.memory_budget_bytes);
  EXPECT_LE(solution.cost.host_bytes, limits_.host_budget_bytes);
  ExpectSameCost(solution.cost, oracle_.Cost(solution.plan));
  // Of equally fast plans always the same, whatever the budget.
  PlanLimits tight = limits_;
  tight.memory_budget_bytes = solution.cost.peak_bytes;
  const absl::StatusOr<Solution> again = Solve(profile_, tight);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PlanLetters(profile_, again->plan), PlanLetters(profile_, solution.plan));
}

int64_t ChainCheck::Check(int64_t budget_bytes) {
  limits_.memory_budget_bytes = budget_bytes;
  SCOPED_TRACE(Words(limits_));
  const std::optional<int64_t> fastest = all_.FastestNs(budget_bytes, limits_.host_budget_bytes);
  const absl::StatusOr<Solution> solution = Solve(profile_, limits_);
  EXPECT_EQ(solution.ok(), fastest.has_value()) << solution.status();
  if (!solution.ok()) {
    EXPECT_EQ(solution.status().code(), absl::StatusCode::kResourceExhausted) << solution.status();
    const int64_t smallest = all_.SmallestBudget(limits_.host_budget_bytes);
    EXPECT_TRUE(absl::StrContains(solution.status().message(), absl::StrCat(smallest))) << solution.status();
    return -1;
  }
  if (fastest) CheckAnswer(*solution, *fastest);
  return solution->cost.peak_bytes;
}

void CheckChain(uint64_t seed, int64_t most_plans) {
  const SmallChain chain = DrawSmallChain(seed, most_plans);
  SCOPED_TRACE(absl::StrCat("chain ", seed, ", at most ", most_plans, " plans"));
  ASSERT_TRUE(CheckProfile(chain.profile).ok()) << CheckProfile(chain.profile);
  const BruteForce all(chain.profile, chain.limits);
  std::mt19937_64 random(seed);
  std::vector<int64_t> host_budgets = {INT64_MAX};
  if (chain.limits.offloads) host_budgets.push_back(all.SomeHostBytes(random) - RandomBetween(random, 0, 1));
  for (const int64_t host_budget : host_budgets) {
    ChainCheck check(chain, all, std::max<int64_t>(0, host_budget));
    check.CheckSmallest();
    check.WalkDown(/*most_steps=*/8);
    check.Check(all.SomePeak(random));
    check.Check(std::max<int64_t>(0, all.SomePeak(random) - 1));
  }
}

// Most chains have hundreds or thousands of plans, one in a hundred 200,000.
void CheckChains(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CheckChain(seed, seed % 100 == 99 ? 200'000 : int64_t{200} << seed % 8);
    if (::testing::Test::HasFailure()) FAIL() << "and so on: the first chain that fails is " << seed;
  }
}

// Where the labels run out, the plan still fits, costs what is said, and the bound lies below the fastest.
TEST(PlannerBruteForce, FewLabelsGiveABound) {
  int inexact = 0;
  for (uint64_t seed = 5000; seed < 5300 && !HasFailure(); ++seed) {
    SmallChain chain = DrawSmallChain(seed, 2000);
    const BruteForce all(chain.profile, chain.limits);
    std::mt19937_64 random(seed);
    chain.limits.memory_budget_bytes = all.SomePeak(random);
    chain.limits.most_labels = RandomBetween(random, 1, 30);
    SCOPED_TRACE(absl::StrCat("chain ", seed, ", labels ", chain.limits.most_labels, ", ", Words(chain.limits)));
    const absl::StatusOr<Solution> solution = Solve(chain.profile, chain.limits);
    ASSERT_TRUE(solution.ok()) << solution.status();
    ASSERT_EQ(WhyOutsideLimits(chain.profile, chain.limits, solution->plan), "");
    ExpectSameCost(solution->cost, PlanOracle(chain.profile).Cost(solution->plan));
    EXPECT_LE(solution->cost.peak_bytes, chain.limits.memory_budget_bytes);
    EXPECT_LE(solution->bound_ns, *all.FastestNs(chain.limits.memory_budget_bytes, INT64_MAX));
    inexact += solution->exact() ? 0 : 1;
  }
  EXPECT_GT(inexact, 0);
}

TEST(PlannerBruteForce, ThousandChains) { CheckChains(0, 1000); }
TEST(PlannerBruteForce, TenThousandChainsLong) { CheckChains(1'000'000, 10'000); }

}  // namespace
}  // namespace reprise::testing
