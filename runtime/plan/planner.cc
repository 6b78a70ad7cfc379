#include "runtime/plan/planner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/plan/search/label_walk.h"
#include "runtime/plan/search/least_peak.h"
#include "runtime/plan/search/lower_bound.h"
#include "runtime/plan/search/move_times.h"
#include "runtime/plan/search/trellis.h"

namespace reprise {
namespace {

// More than any plan needs (CheckProfile), and sums with it do not overflow.
constexpr int64_t kNoBudget = int64_t{1} << 61;

constexpr int64_t kFewLabels = 64;  // a cut, in the first walks, whose plans and references prune the next ones
constexpr int kPatience = 2;        // first walks that may fail to raise the bound
constexpr int64_t kGrowth = 16;     // of the number of labels from walk to walk after that

absl::Status CheckLimits(const PlanLimits& limits) {
  if (limits.memory_budget_bytes < 0 || limits.host_budget_bytes < 0) {
    return absl::InvalidArgumentError("planner: budgets must not be negative");
  }
  if (limits.smallest_prefetch < 0 || limits.largest_prefetch > kMostPrefetch ||
      limits.smallest_prefetch > limits.largest_prefetch) {
    return absl::InvalidArgumentError(absl::StrCat("planner: prefetch from ", limits.smallest_prefetch, " to ",
                                                   limits.largest_prefetch, "; it must be a range within 0 to 3"));
  }
  if (limits.longest_segment < 1 || limits.most_labels < 1) {
    return absl::InvalidArgumentError("planner: longest_segment and most_labels must be at least 1");
  }
  return absl::OkStatus();
}

// Without gathers the depth of prefetch changes nothing.
int LargestPrefetch(const Profile& profile, const PlanLimits& limits) {
  return profile.gathers ? limits.largest_prefetch : limits.smallest_prefetch;
}

// What is known of all depths so far.
struct Best {
  std::optional<Plan> plan;
  int64_t time_ns = INT64_MAX;  // of one micro-batch
  int64_t retained_bytes = 0;
  int64_t bound_ns = INT64_MAX;  // likewise
  int64_t labels = 0;            // kept to find it
};

// The plans of one prefetch depth.
class DepthSearch {
 public:
  DepthSearch(const Profile& profile, const PlanLimits& limits, int prefetch)
      : limits_(limits), prefetch_(prefetch), trellis_(BuildTrellis(profile, limits, prefetch)), times_(trellis_) {
    PeakNeeds needs = LeastPeaks(trellis_, limits_.host_budget_bytes);
    smallest_ = SmallestPeak(trellis_, needs);
    if (HostMayBind(trellis_, limits_.host_budget_bytes)) needs_ = std::move(needs);
  }

  // The smallest budget that some plan fits.
  int64_t SmallestBudget() const { return smallest_; }

  // What all plans of this depth that fit take at least.
  LowerBound Bound(int64_t budget) {
    if (!unlimited_) unlimited_.emplace(trellis_, times_, needs_.empty() ? -1 : limits_.host_budget_bytes);
    return unlimited_->Within(std::min(budget, kNoBudget));
  }

  // Makes `best` better if some plan of this depth is. Walks with more and more labels, each pruned by the best plan so
  // far, until nothing was dropped that could be as good, or there are as many as there may be. `bound`: Bound(budget).
  void Improve(int64_t budget, LowerBound bound, Best* best) {
    if (bound.Excludes(best->time_ns)) return;
    budget_ = std::min(budget, kNoBudget);
    const int64_t most = std::max<int64_t>(limits_.most_labels / (trellis_.layers() + 1), 1);
    if (Roughly(std::min(kFewLabels, most), &bound, best)) return;
    for (int64_t labels = std::min(kFewLabels * kGrowth, most);; labels = std::min(labels * kGrowth, most)) {
      const WalkResult result = Walk(bound, labels, best);
      if (Complete(result, *best) || labels == most) {
        best->bound_ns = std::min({best->bound_ns, result.dropped_ns, best->time_ns});
        return;
      }
    }
  }

 private:
  // Nothing that was dropped can be as good as the best plan.
  static bool Complete(const WalkResult& result, const Best& best) {
    return result.dropped_ns == INT64_MAX || result.dropped_ns > best.time_ns;
  }

  // Walks with few labels, each of which gives a plan that prunes and references that may raise the bound, until that
  // helps no more. Returns whether the best plan is proven.
  bool Roughly(int64_t labels, LowerBound* bound, Best* best) const {
    LowerBound next = *bound;
    for (int patience = kPatience; patience > 0;) {
      const WalkResult result = Walk(next, labels, best);
      if (Complete(result, *best)) {
        best->bound_ns = std::min(best->bound_ns, best->time_ns);
        return true;
      }
      if (times_.forward().count + times_.backward().count == 2) break;  // nothing to refer to
      next.Refine(result.references);
      if (next.OfAll() <= bound->OfAll()) {
        --patience;
      } else {
        *bound = next;
      }
    }
    return false;
  }

  WalkResult Walk(const LowerBound& bound, int64_t labels, Best* best) const {
    const WalkLimits limits{.memory_budget_bytes = budget_,
                            .host_budget_bytes = limits_.host_budget_bytes,
                            .slowest_ns = best->time_ns,
                            .labels_a_cut = labels};
    WalkResult result = LabelWalk(trellis_, times_, bound, needs_.empty() ? nullptr : &needs_, limits).Run();
    best->labels += result.labels;
    Take(result, best);
    return result;
  }

  // Depths come in any order; of plans of two that are as good as each other that of the smaller one is wanted. Of
  // those of one depth the later walk's is, which has seen more.
  bool Better(const WalkResult& result, const Best& best) const {
    if (result.time_ns != best.time_ns) return result.time_ns < best.time_ns;
    if (best.plan->prefetch == prefetch_) return true;
    return std::tie(result.retained_bytes, prefetch_) < std::tie(best.retained_bytes, best.plan->prefetch);
  }

  void Take(const WalkResult& result, Best* best) const {
    if (!result.found()) return;
    if (best->plan && !Better(result, *best)) return;
    best->plan = PlanOf(trellis_, result.path);
    best->plan->prefetch = prefetch_;
    best->time_ns = result.time_ns;
    best->retained_bytes = result.retained_bytes;
  }

  const PlanLimits limits_;
  const int prefetch_;
  int64_t budget_ = kNoBudget;  // of the present search
  const Trellis trellis_;
  const MoveTimes times_;
  PeakNeeds needs_;  // where the host's memory could run out
  int64_t smallest_ = 0;
  std::optional<LowerBound> unlimited_;  // made once, for all budgets
};

// A chain without layers leaves nothing to choose.
Plan PlanWithoutLayers(const PlanLimits& limits) {
  Plan plan;
  plan.policy = "auto";
  plan.prefetch = limits.smallest_prefetch;
  return plan;
}

absl::Status DoesNotFit(int64_t budget_bytes, int64_t smallest_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("memory_budget=", budget_bytes, " bytes (",
                                                   FormatBytes(budget_bytes),
                                                   ") does not hold any plan of this job; the smallest that does is ",
                                                   smallest_bytes, " bytes (", FormatBytes(smallest_bytes), ")"));
}

}  // namespace

class Planner::Search {
 public:
  Search(const Profile& profile, const PlanLimits& limits) : profile_(profile), limits_(limits) {
    if (profile.layer_count() == 0) return;
    for (int prefetch = limits.smallest_prefetch; prefetch <= LargestPrefetch(profile, limits); ++prefetch) {
      depths_.push_back(std::make_unique<DepthSearch>(profile, limits, prefetch));
    }
  }

  int64_t SmallestBudget() {
    if (smallest_) return *smallest_;
    // A chain without layers leaves nothing to choose.
    int64_t smallest = depths_.empty() ? CostOf(profile_, PlanWithoutLayers(limits_))->peak_bytes : INT64_MAX;
    for (const auto& depth : depths_) smallest = std::min(smallest, depth->SmallestBudget());
    smallest_ = smallest;
    return smallest;
  }

  absl::StatusOr<Solution> Solve(int64_t budget) {
    if (budget < 0) return absl::InvalidArgumentError("planner: budgets must not be negative");
    Best best;
    if (depths_.empty()) best.plan = PlanWithoutLayers(limits_);
    ImproveAll(budget, &best);
    if (!best.plan) return DoesNotFit(budget, SmallestBudget());
    Solution solution;
    ASSIGN_OR_RETURN(solution.cost, CostOf(profile_, *best.plan));
    solution.plan = *std::move(best.plan);
    solution.labels = best.labels;
    if (depths_.empty()) {
      if (solution.cost.peak_bytes > budget) return DoesNotFit(budget, solution.cost.peak_bytes);
      solution.bound_ns = solution.cost.time_ns;
      return solution;
    }
    REPRISE_CHECK(StepTime(best.time_ns) == solution.cost.time_ns)
        << "the search found " << StepTime(best.time_ns) << " ns, its plan takes " << solution.cost.time_ns;
    REPRISE_CHECK(solution.cost.peak_bytes <= budget) << solution.cost.peak_bytes << " bytes";
    REPRISE_CHECK(solution.cost.host_bytes <= limits_.host_budget_bytes) << solution.cost.host_bytes << " host bytes";
    solution.bound_ns = StepTime(best.bound_ns);
    return solution;
  }

 private:
  // The most promising depth first: the others are then seldom searched, only bounded.
  void ImproveAll(int64_t budget, Best* best) {
    std::vector<std::pair<DepthSearch*, LowerBound>> bounded;
    for (const auto& depth : depths_) {
      if (depth->SmallestBudget() <= budget) bounded.emplace_back(depth.get(), depth->Bound(budget));
    }
    std::stable_sort(bounded.begin(), bounded.end(),
                     [](const auto& a, const auto& b) { return a.second.OfAll() < b.second.OfAll(); });
    for (auto& [depth, bound] : bounded) depth->Improve(budget, std::move(bound), best);
  }

  int64_t StepTime(int64_t micro_batch_ns) const { return profile_.accumulation * micro_batch_ns + profile_.update_ns; }

  const Profile& profile_;
  const PlanLimits limits_;
  std::vector<std::unique_ptr<DepthSearch>> depths_;
  std::optional<int64_t> smallest_;
};

Planner::Planner(std::unique_ptr<Search> search) : search_(std::move(search)) {}
Planner::Planner(Planner&& other) noexcept = default;
Planner::~Planner() = default;

absl::StatusOr<Planner> Planner::Create(const Profile& profile, const PlanLimits& limits) {
  RETURN_IF_ERROR(CheckProfile(profile));
  RETURN_IF_ERROR(CheckLimits(limits));
  return Planner(std::make_unique<Search>(profile, limits));
}

absl::StatusOr<Solution> Planner::Solve(int64_t memory_budget_bytes) { return search_->Solve(memory_budget_bytes); }
int64_t Planner::SmallestBudget() { return search_->SmallestBudget(); }

absl::StatusOr<int64_t> SmallestBudget(const Profile& profile, const PlanLimits& limits) {
  ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
  return planner.SmallestBudget();
}

absl::StatusOr<Solution> Solve(const Profile& profile, const PlanLimits& limits) {
  ASSIGN_OR_RETURN(Planner planner, Planner::Create(profile, limits));
  return planner.Solve(limits.memory_budget_bytes);
}

}  // namespace reprise
