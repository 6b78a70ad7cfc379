#include "runtime/train/budget_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

// Walks the planner's answers from the one for `from` bytes to that for `smallest`, the smallest feasible budget, each
// of a smaller peak than the one before, until `visit` says true.
template <typename Visit>
absl::Status WalkDown(const Profile& profile, const PlanLimits& limits, int64_t from, int64_t smallest, Visit visit) {
  PlanLimits narrower = limits;
  narrower.memory_budget_bytes = from;
  while (narrower.memory_budget_bytes >= smallest) {
    ASSIGN_OR_RETURN(const Solution solution, Solve(profile, narrower));
    ASSIGN_OR_RETURN(const bool done, visit(solution));
    if (done) break;
    narrower.memory_budget_bytes = solution.cost.peak_bytes - 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> SmallestArena(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes) {
  PlanLimits unlimited = limits;
  unlimited.memory_budget_bytes = INT64_MAX;
  ASSIGN_OR_RETURN(const int64_t smallest, SmallestBudget(profile, unlimited));
  unlimited.memory_budget_bytes = smallest;
  ASSIGN_OR_RETURN(const Solution leanest, Solve(profile, unlimited));
  ASSIGN_OR_RETURN(int64_t best, arena_bytes(leanest.plan));
  if (best <= smallest) return smallest;
  // A plan of a larger live sum may need a smaller arena.
  RETURN_IF_ERROR(WalkDown(profile, limits, best - 1, smallest, [&](const Solution& solution) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(solution.plan));
    best = std::min(best, bytes);
    return false;
  }));
  return best;
}

absl::StatusOr<bool> BudgetHolds(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes) {
  const int64_t budget = limits.memory_budget_bytes;
  ASSIGN_OR_RETURN(const int64_t smallest, SmallestBudget(profile, limits));
  if (smallest > budget) return false;
  // The leanest plan is found fastest, and almost always answers.
  PlanLimits narrowest = limits;
  narrowest.memory_budget_bytes = smallest;
  ASSIGN_OR_RETURN(const Solution leanest, Solve(profile, narrowest));
  ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(leanest.plan));
  bool holds = bytes <= budget;
  if (holds) return true;
  RETURN_IF_ERROR(WalkDown(profile, limits, budget, smallest, [&](const Solution& solution) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const int64_t arena, arena_bytes(solution.plan));
    holds = arena <= budget;
    return holds;
  }));
  return holds;
}

absl::StatusOr<BudgetPlan> PlanForBudget(const Profile& profile, const PlanLimits& limits,
                                         const ArenaBytes& arena_bytes) {
  const int64_t budget = limits.memory_budget_bytes;
  ASSIGN_OR_RETURN(const int64_t smallest, SmallestBudget(profile, limits));
  BudgetPlan best;
  if (budget >= smallest) {
    RETURN_IF_ERROR(WalkDown(profile, limits, budget, smallest, [&](const Solution& solution) -> absl::StatusOr<bool> {
      ++best.plans_tried;
      ASSIGN_OR_RETURN(best.arena_bytes, arena_bytes(solution.plan));
      best.solution = solution;
      return best.arena_bytes <= budget;
    }));
    if (best.arena_bytes <= budget) return best;
  }
  ASSIGN_OR_RETURN(const int64_t needed, SmallestArena(profile, limits, arena_bytes));
  return absl::ResourceExhaustedError(absl::StrCat("memory_budget=", budget, " bytes (", FormatBytes(budget),
                                                   ") holds no plan of this job; the smallest budget that does is ",
                                                   needed, " bytes (", FormatBytes(needed), ") per rank"));
}

}  // namespace reprise
