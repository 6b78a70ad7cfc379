// The fastest plan by trying all: every plan of a small chain, priced by the oracle.
//
//   const SmallChain chain = DrawSmallChain(seed);
//   const BruteForce all(chain.profile, chain.limits);
//   all.FastestNs(budget, host_budget);
#ifndef REPRISE_TESTS_TOOLS_BRUTE_FORCE_H_
#define REPRISE_TESTS_TOOLS_BRUTE_FORCE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"
#include "tests/tools/plan_oracle.h"

namespace reprise::testing {

// A random profile of up to 6 layers with random limits (no budgets), thinned until it has at most `most_plans` plans:
// inner options, segments, prefetch depths, offload and staying gathered are taken away in random order.
struct SmallChain {
  Profile profile;
  PlanLimits limits;
};
SmallChain DrawSmallChain(uint64_t seed, int64_t most_plans);

class BruteForce {
 public:
  BruteForce(const Profile& profile, const PlanLimits& limits);

  // Of the plans that fit both budgets; empty if there is none.
  std::optional<int64_t> FastestNs(int64_t memory_budget_bytes, int64_t host_budget_bytes) const;
  int64_t SmallestBudget(int64_t host_budget_bytes) const;

  // A peak or host size that some plan has, any with the same chance.
  int64_t SomePeak(std::mt19937_64& random) const;
  int64_t SomeHostBytes(std::mt19937_64& random) const;

  int64_t plan_count() const { return static_cast<int64_t>(costs_.size()); }

 private:
  std::vector<OracleCost> costs_;
};

// Empty if the plan belongs to the class within the limits (budgets apart), else what is wrong with it.
std::string WhyOutsideLimits(const Profile& profile, const PlanLimits& limits, const Plan& plan);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_BRUTE_FORCE_H_
