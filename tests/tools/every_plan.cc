#include "tests/tools/every_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/tools/plan_oracle.h"

namespace reprise::testing {
namespace {

class Enumeration {
 public:
  Enumeration(const Profile& profile, const PlanLimits& limits, const PlanVisitor& visit)
      : profile_(profile), limits_(limits), visit_(visit) {
    plan_.policy = "every";
    plan_.layers.resize(static_cast<size_t>(profile.layer_count()));
  }

  void Run(int prefetch) {
    plan_.prefetch = prefetch;
    From(0);
  }

 private:
  void From(size_t i) {
    if (i == plan_.layers.size()) {
      visit_(plan_);
      return;
    }
    if (profile_.forward_only(static_cast<int64_t>(i) + 1)) {
      plan_.layers[i] = {};
      From(i + 1);
      return;
    }
    const std::vector<OptionProfile>& options = profile_.blocks[i + 1].options;
    for (const OptionProfile& option : options) Segment(i, 1, option);
    for (size_t length = 2; length <= Longest() && i + length <= plan_.layers.size(); ++length) {
      Segment(i, length, options.back());
    }
  }

  void Segment(size_t i, size_t length, const OptionProfile& option) {
    const bool may_offload = limits_.offloads && option.reads_boundary;
    const bool may_stay = limits_.stays_gathered && profile_.gathers && length == 1;
    for (size_t j = i + 1; j < i + length; ++j) plan_.layers[j] = {.keep = Keep::kBoundary, .starts_segment = false};
    for (const bool offload : {false, true}) {
      for (const bool stay : {false, true}) {
        if ((offload && !may_offload) || (stay && !may_stay)) continue;
        plan_.layers[i] = {.keep = option.keep, .set = option.set, .offload_boundary = offload, .stays_gathered = stay};
        From(i + length);
      }
    }
  }

  size_t Longest() const { return static_cast<size_t>(limits_.longest_segment); }

  const Profile& profile_;
  const PlanLimits& limits_;
  const PlanVisitor& visit_;
  Plan plan_;
};

int LargestPrefetch(const Profile& profile, const PlanLimits& limits) {
  return profile.gathers ? limits.largest_prefetch : limits.smallest_prefetch;
}

}  // namespace

void ForEachPlan(const Profile& profile, const PlanLimits& limits, const PlanVisitor& visit) {
  Enumeration enumeration(profile, limits, visit);
  for (int d = limits.smallest_prefetch; d <= LargestPrefetch(profile, limits); ++d) enumeration.Run(d);
}

int64_t CountPlans(const Profile& profile, const PlanLimits& limits) {
  const int64_t n = profile.layer_count();
  const double stays = limits.stays_gathered && profile.gathers ? 2 : 1;
  const double offloads = limits.offloads ? 2 : 1;
  std::vector<double> count(static_cast<size_t>(n + 1));  // of the layers from i on
  count.back() = LargestPrefetch(profile, limits) - limits.smallest_prefetch + 1;
  for (int64_t i = n - 1; i >= 0; --i) {
    if (profile.forward_only(i + 1)) {
      count[static_cast<size_t>(i)] = count[static_cast<size_t>(i + 1)];
      continue;
    }
    double single = 0;
    for (const OptionProfile& option : profile.blocks[static_cast<size_t>(i + 1)].options) {
      single += (option.reads_boundary ? offloads : 1) * stays;
    }
    double total = single * count[static_cast<size_t>(i + 1)];
    for (int64_t length = 2; length <= limits.longest_segment && i + length <= n; ++length) {
      total += offloads * count[static_cast<size_t>(i + length)];
    }
    count[static_cast<size_t>(i)] = total;
  }
  return count.front() < 9e18 ? static_cast<int64_t>(count.front()) : INT64_MAX;
}

std::string PlanLetters(const Profile& profile, const Plan& plan) {
  std::string letters = absl::StrCat("d", plan.prefetch);
  for (size_t i = 0; i < plan.layers.size();) {
    const LayerPlan& layer = plan.layers[i];
    size_t length = 1;
    while (i + length < plan.layers.size() && !plan.layers[i + length].starts_segment) ++length;
    absl::StrAppend(&letters, " ");
    if (length > 1) {
      absl::StrAppend(&letters, "b", length);
    } else {
      absl::StrAppend(&letters, OptionIndexOf(profile, plan, static_cast<int64_t>(i)));
    }
    absl::StrAppend(&letters, layer.offload_boundary ? "o" : "", layer.stays_gathered ? "g" : "");
    i += length;
  }
  return letters;
}

}  // namespace reprise::testing
