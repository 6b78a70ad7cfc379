#include "runtime/train/budget_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "runtime/plan/by_hand.h"

namespace reprise {
namespace {

// Answers of the planner that are compiled in search of the smallest budget: each of the first ones, fewer where layers
// are many and compiling takes long, then some more in even steps of memory.
int64_t TriedOneByOne(const Profile& profile) {
  return std::max<int64_t>(16, 2048 / std::max<int64_t>(profile.layer_count(), 1));
}
constexpr int64_t kTriedInSteps = 16;

// Walks the planner's answers from the one for `from` bytes to that for the smallest feasible budget, each
// of a smaller peak than the one before, until `visit` says true.
template <typename Visit>
absl::Status WalkDown(Planner& planner, int64_t from, Visit visit) {
  for (int64_t budget = from; budget >= planner.SmallestBudget();) {
    ASSIGN_OR_RETURN(const Solution solution, planner.Solve(budget));
    ASSIGN_OR_RETURN(const bool done, visit(solution));
    if (done) break;
    budget = solution.cost.peak_bytes - 1;
  }
  return absl::OkStatus();
}

struct Candidate {
  Plan plan;
  PlanCost cost;
};

// Every `every:K` within the limits, the fastest first. The planner's segments are short, and of two plans of one peak
// it gives one: without these a budget that is enough by hand could be refused.
std::vector<Candidate> ByHandWithin(const Profile& profile, const PlanLimits& limits) {
  int64_t boundary_bytes = 0;
  for (const BlockProfile& block : profile.blocks) boundary_bytes = std::max(boundary_bytes, block.boundary_bytes);
  const int most_prefetch = profile.gathers ? limits.largest_prefetch : limits.smallest_prefetch;
  std::vector<Candidate> candidates;
  const auto add = [&](int prefetch, bool offload, int64_t layers) {
    absl::StatusOr<Plan> plan =
        ByHand({.policy = absl::StrCat("every:", layers),
                .layers = profile.layer_count(),
                .forward_only = profile.forward_only_layers(),
                .prefetch = prefetch,
                .offload_activations = offload,
                .boundary_bytes = boundary_bytes,
                .host_budget_bytes = limits.host_budget_bytes == INT64_MAX ? -1 : limits.host_budget_bytes},
               nullptr);
    if (!plan.ok()) return;  // the host budget holds no boundary
    const absl::StatusOr<PlanCost> cost = CostOf(profile, *plan);
    if (cost.ok() && cost->host_bytes <= limits.host_budget_bytes) candidates.push_back({*std::move(plan), *cost});
  };
  for (int prefetch = limits.smallest_prefetch; prefetch <= most_prefetch; ++prefetch) {
    for (int64_t layers = 1; layers <= profile.layer_count(); ++layers) {
      add(prefetch, /*offload=*/false, layers);
      if (limits.offloads) add(prefetch, /*offload=*/true, layers);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.time_ns < b.cost.time_ns; });
  return candidates;
}

PlanLimits WithoutOffload(const PlanLimits& limits) {
  PlanLimits narrower = limits;
  narrower.offloads = false;
  return narrower;
}

// The first of the planner's answers whose arena the budget holds, where it is faster than `slowest_ns`: answers come
// slower and slower. Lowers `bound_ns` to the bound of the very first: a plan that was passed over may have a twin of
// its time with a smaller arena.
absl::StatusOr<std::optional<BudgetPlan>> FromPlanner(Planner& planner, int64_t budget, const ArenaBytes& arena_bytes,
                                                      int64_t slowest_ns, int64_t* bound_ns) {
  BudgetPlan best;
  bool found = false;
  RETURN_IF_ERROR(WalkDown(planner, budget, [&](const Solution& solution) -> absl::StatusOr<bool> {
    if (best.plans_tried++ == 0) *bound_ns = std::min(*bound_ns, solution.bound_ns);
    if (solution.cost.time_ns >= slowest_ns) return true;
    ASSIGN_OR_RETURN(best.arena_bytes, arena_bytes(solution.plan));
    best.solution = solution;
    found = best.arena_bytes <= budget;
    return found;
  }));
  if (!found) return std::nullopt;
  return best;
}

// The better of both: the faster, of equally fast ones the one that stood there first.
void Take(std::optional<BudgetPlan> other, std::optional<BudgetPlan>* best) {
  if (!other) return;
  if (*best && (*best)->solution.cost.time_ns <= other->solution.cost.time_ns) return;
  if (*best) other->plans_tried += (*best)->plans_tried;
  *best = std::move(other);
}

absl::Status TakeByHand(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes,
                        std::optional<BudgetPlan>* best) {
  for (Candidate& candidate : ByHandWithin(profile, limits)) {
    if (*best && candidate.cost.time_ns >= (*best)->solution.cost.time_ns) break;
    if (candidate.cost.peak_bytes > limits.memory_budget_bytes) continue;
    ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(candidate.plan));
    if (bytes > limits.memory_budget_bytes) continue;
    BudgetPlan plan;
    plan.solution.plan = std::move(candidate.plan);
    plan.solution.cost = candidate.cost;
    plan.arena_bytes = bytes;
    plan.plans_tried = 1;
    Take(std::move(plan), best);
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BudgetPlan>> BestWithin(Planner& planner, const Profile& profile, const PlanLimits& limits,
                                                     const ArenaBytes& arena_bytes) {
  const int64_t budget = limits.memory_budget_bytes;
  int64_t bound_ns = INT64_MAX;
  ASSIGN_OR_RETURN(std::optional<BudgetPlan> best, FromPlanner(planner, budget, arena_bytes, INT64_MAX, &bound_ns));
  // Where the planner's first answer fits, no plan of its class is faster.
  if (limits.offloads && (!best || best->plans_tried > 1)) {
    ASSIGN_OR_RETURN(Planner without, Planner::Create(profile, WithoutOffload(limits)));
    const int64_t slowest_ns = best ? best->solution.cost.time_ns : INT64_MAX;
    ASSIGN_OR_RETURN(std::optional<BudgetPlan> resident,
                     FromPlanner(without, budget, arena_bytes, slowest_ns, &bound_ns));
    Take(std::move(resident), &best);
  }
  RETURN_IF_ERROR(TakeByHand(profile, limits, arena_bytes, &best));
  // No plan of the class that fits is faster than that; one by hand may be, beyond the class.
  if (best) best->solution.bound_ns = std::min(bound_ns, best->solution.cost.time_ns);
  return best;
}

// Makes `best` smaller if the arena of one of the planner's answers is. No arena is smaller than its plan's peak.
absl::Status LowerFromPlanner(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes,
                              SmallestBudgetFound* best) {
  ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
  const int64_t smallest = planner.SmallestBudget();
  if (smallest >= best->bytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Solution leanest, planner.Solve(smallest));
  ASSIGN_OR_RETURN(const int64_t leanest_bytes, arena_bytes(leanest.plan));
  best->bytes = std::min(best->bytes, leanest_bytes);
  // A plan of a larger live sum may need a smaller arena.
  int64_t step = 1;
  int64_t tried = 0;
  for (int64_t budget = best->bytes - step; budget >= smallest;) {
    ASSIGN_OR_RETURN(const Solution solution, planner.Solve(budget));
    ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(solution.plan));
    best->bytes = std::min(best->bytes, bytes);
    const int64_t below = std::min(solution.cost.peak_bytes, best->bytes);
    if (++tried == TriedOneByOne(profile) && below > smallest) {
      best->proven = false;
      step = std::max<int64_t>(1, (below - smallest) / kTriedInSteps);
    }
    budget = below - step;
  }
  return absl::OkStatus();
}

// Makes `best` smaller if a plan by hand needs less.
absl::Status LowerByHand(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes,
                         SmallestBudgetFound* best) {
  std::vector<Candidate> candidates = ByHandWithin(profile, limits);
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.cost.peak_bytes < b.cost.peak_bytes;  // the likeliest first: fewer are compiled
  });
  for (const Candidate& candidate : candidates) {
    if (candidate.cost.peak_bytes >= best->bytes) break;
    ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(candidate.plan));
    best->bytes = std::min(best->bytes, bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SmallestBudgetFound> SmallestArena(const Profile& profile, const PlanLimits& limits,
                                                  const ArenaBytes& arena_bytes,
                                                  std::optional<SmallestBudgetFound> resident) {
  SmallestBudgetFound best;
  if (resident.has_value()) {
    best = *resident;
  } else if (limits.offloads) {
    ASSIGN_OR_RETURN(best, SmallestArena(profile, WithoutOffload(limits), arena_bytes));
  }
  RETURN_IF_ERROR(LowerByHand(profile, limits, arena_bytes, &best));
  RETURN_IF_ERROR(LowerFromPlanner(profile, limits, arena_bytes, &best));
  return best;
}

absl::StatusOr<bool> BudgetHolds(const Profile& profile, const PlanLimits& limits, const ArenaBytes& arena_bytes) {
  ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
  if (planner.SmallestBudget() <= limits.memory_budget_bytes) {
    // The leanest plan is found fastest, and almost always answers.
    ASSIGN_OR_RETURN(const Solution leanest, planner.Solve(planner.SmallestBudget()));
    ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(leanest.plan));
    if (bytes <= limits.memory_budget_bytes) return true;
  }
  ASSIGN_OR_RETURN(const std::optional<BudgetPlan> best, BestWithin(planner, profile, limits, arena_bytes));
  return best.has_value();
}

absl::StatusOr<BudgetPlan> PlanForBudget(const Profile& profile, const PlanLimits& limits,
                                         const ArenaBytes& arena_bytes) {
  ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
  ASSIGN_OR_RETURN(std::optional<BudgetPlan> best, BestWithin(planner, profile, limits, arena_bytes));
  if (best) return *std::move(best);
  const int64_t budget = limits.memory_budget_bytes;
  ASSIGN_OR_RETURN(const SmallestBudgetFound needed, SmallestArena(profile, limits, arena_bytes));
  return absl::ResourceExhaustedError(
      absl::StrCat("memory_budget=", budget, " bytes (", FormatBytes(budget), ") holds no plan of this job; ",
                   needed.proven ? "the smallest budget that does is " : "a budget that does is ", needed.bytes,
                   " bytes (", FormatBytes(needed.bytes), ") per rank"));
}

}  // namespace reprise
