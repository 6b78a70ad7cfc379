// A plan from a memory budget: the planner's answer, compiled, until its layout fits as well.
//
//   ASSIGN_OR_RETURN(BudgetPlan best, PlanForBudget(profile, limits, arena_bytes));
//
// The planner counts live bytes; the arena that holds them may be a little larger (runtime/plan/layout.h has the last
// word). So plans are tried from the fastest that the budget holds to slower ones of a smaller peak, and the first
// whose arena fits is taken; where that is not the very first, the answers without offload count, too. Beside them
// stand the plans by hand (every:K), some of which lie outside the planner's class: what is enough for one of them is
// not refused. None of these depends on the budget, so a lower one never gives a faster plan or a higher peak.
#ifndef REPRISE_RUNTIME_TRAIN_BUDGET_PLAN_H_
#define REPRISE_RUNTIME_TRAIN_BUDGET_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"

namespace reprise {

struct BudgetPlan {
  Solution solution;
  int64_t arena_bytes = 0;  // of its compiled schedule: the predicted peak
  int64_t plans_tried = 0;  // 1: the first fitted
};

// Device memory that the step with this plan takes, from its compiled schedule.
using ArenaBytes = std::function<absl::StatusOr<int64_t>(const Plan& plan)>;

// ResourceExhausted, with the smallest budget that would do, where no plan's arena fits `limits.memory_budget_bytes`.
absl::StatusOr<BudgetPlan> PlanForBudget(const Profile& profile, const PlanLimits& limits,
                                         const ArenaBytes& arena_bytes);

// Whether PlanForBudget would find one. Faster than asking it: the fastest plan is not looked for.
absl::StatusOr<bool> BudgetHolds(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes);

// A budget that PlanForBudget takes. Proven: it takes no smaller one. Among the thousands of answers for a chain of a
// hundred layers that is not looked for, once some dozens have been compiled.
struct SmallestBudgetFound {
  int64_t bytes = INT64_MAX;
  bool proven = true;
};

// `resident`: what was found for the same limits without offload, where that is known and these offload; it is not
// looked for a second time then.
absl::StatusOr<SmallestBudgetFound> SmallestArena(const Profile& profile, const PlanLimits& limits,
                                                  const ArenaBytes& arena_bytes,
                                                  std::optional<SmallestBudgetFound> resident = std::nullopt);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_BUDGET_PLAN_H_
