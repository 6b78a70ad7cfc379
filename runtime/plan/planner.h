// Planner: the fastest plan of a profile within a memory budget, with a proof.
//
// The class of plans, their time and their peak are those of docs/plan_profile.md (class P: each forward runs at most
// twice, what is kept stays until its backward, transfers are issued at fixed points). Within it the answer is exact
// unless the limits below are hit; then `bound_ns` says how far from the best it can be.
//
//   ASSIGN_OR_RETURN(Solution solution, Solve(profile, {.memory_budget_bytes = 1 << 30}));
//   solution.plan;       // its time: solution.cost.time_ns >= solution.bound_ns, the bound of every plan that fits
#ifndef REPRISE_RUNTIME_PLAN_PLANNER_H_
#define REPRISE_RUNTIME_PLAN_PLANNER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_cost.h"
#include "runtime/plan/profile.h"

namespace reprise {

struct PlanLimits {
  int64_t memory_budget_bytes = INT64_MAX;  // of device memory
  int64_t host_budget_bytes = INT64_MAX;
  bool offloads = false;        // boundaries may go to the host
  bool stays_gathered = true;   // units may stay gathered (full sharding)
  int64_t longest_segment = 4;  // layers that may share one boundary
  int smallest_prefetch = 1;    // units
  int largest_prefetch = 1;
  int64_t most_labels = 2'000'000;  // partial plans held at once; beyond that the answer is not exact but bounded
};

struct Solution {
  Plan plan;
  PlanCost cost;
  int64_t bound_ns = 0;  // no plan of the class that fits is faster
  int64_t labels = 0;    // partial plans that were kept to find it: what the time of the search grows with
  bool exact() const { return bound_ns == cost.time_ns; }
};

// Asked for one profile again and again: what does not depend on the memory budget is worked out once. The profile
// outlives it. Not thread-safe.
//
//   ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
//   ASSIGN_OR_RETURN(Solution solution, planner.Solve(budget));
class Planner {
 public:
  // `limits.memory_budget_bytes` plays no part. InvalidArgument for a bad profile or bad limits.
  static absl::StatusOr<Planner> Create(const Profile& profile, const PlanLimits& limits);
  Planner(Planner&& other) noexcept;
  ~Planner();

  // As the functions below.
  absl::StatusOr<Solution> Solve(int64_t memory_budget_bytes);
  int64_t SmallestBudget();

 private:
  class Search;
  explicit Planner(std::unique_ptr<Search> search);

  std::unique_ptr<Search> search_;
};

// The fastest plan; of equally fast ones always the same one, whatever the budget and the machine (planner.cc says by
// which rule), so that a lower budget never gives a higher peak nor a faster plan, as long as answers are exact.
// ResourceExhausted where none fits, with the smallest budget that would do in the message.
absl::StatusOr<Solution> Solve(const Profile& profile, const PlanLimits& limits);

// The smallest memory budget that some plan within the other limits fits. InvalidArgument for a bad profile.
absl::StatusOr<int64_t> SmallestBudget(const Profile& profile, const PlanLimits& limits);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_PLANNER_H_
