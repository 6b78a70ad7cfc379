#include "launch/profile_text.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// Of the plans that the proof is about.
std::string Restriction() {
  return absl::StrCat(
      "within the class of plans in docs/plan_profile.md: each forward runs at most twice, what is kept stays until "
      "its "
      "backward, at most ",
      PlanLimits().longest_segment, " layers share a boundary");
}

std::string Seconds(int64_t ns) { return absl::StrFormat("%.4g s", static_cast<double>(ns) / 1e9); }

// Index into the layer's options.
size_t OptionIndex(const Profile& profile, const Plan& plan, size_t layer) {
  const LayerPlan& l = plan.layers[layer];
  const std::vector<OptionProfile>& options = profile.blocks[layer + 1].options;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].keep == l.keep && (l.keep != Keep::kSet || options[i].set == l.set)) return i;
  }
  return options.size() - 1;
}

const OptionProfile& OptionOf(const Profile& profile, const Plan& plan, size_t layer) {
  return profile.blocks[layer + 1].options[OptionIndex(profile, plan, layer)];
}

std::string KeptText(const Profile& profile, const Plan& plan, size_t layer) {
  const LayerPlan& l = plan.layers[layer];
  std::string text = l.starts_segment ? OptionOf(profile, plan, layer).name : "nothing: shares the boundary before";
  if (l.offload_boundary) absl::StrAppend(&text, "; boundary offloaded");
  if (l.stays_gathered) absl::StrAppend(&text, "; stays gathered");
  return text;
}

// One line for layers in a row that keep the same.
std::string LayerLines(const Profile& profile, const Plan& plan) {
  std::string text;
  for (size_t i = 0; i < plan.layers.size();) {
    const std::string kept = KeptText(profile, plan, i);
    size_t end = i + 1;
    while (end < plan.layers.size() && KeptText(profile, plan, end) == kept) ++end;
    const std::string& first = profile.blocks[i + 1].name;
    const std::string name = end - i > 1 ? absl::StrCat(first, " ... ", profile.blocks[end].name) : first;
    absl::StrAppend(&text, absl::StrFormat("  %-28s %s\n", name, kept));
    i = end;
  }
  return text;
}

std::string BoundText(int64_t time_ns, int64_t bound_ns) {
  if (bound_ns >= time_ns) return absl::StrCat("no plan that fits is faster (proven, ", Restriction(), ")");
  const double gap = 100.0 * static_cast<double>(time_ns - bound_ns) / static_cast<double>(bound_ns);
  return absl::StrFormat("no plan that fits takes less than %s: at most %.3g %% are left to gain (proven, %s)",
                         Seconds(bound_ns), gap, Restriction());
}

Json LayersJson(const Profile& profile, const Plan& plan) {
  Json layers = Json::array();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& l = plan.layers[i];
    layers.push_back({{"name", profile.blocks[i + 1].name},
                      {"keeps", OptionOf(profile, plan, i).name},
                      {"option", OptionIndex(profile, plan, i)},
                      {"starts_segment", l.starts_segment},
                      {"boundary_offloaded", l.offload_boundary},
                      {"stays_gathered", l.stays_gathered}});
  }
  return layers;
}

std::string Dump(const Json& json) {
  return absl::StrCat(json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace), "\n");
}

}  // namespace

std::string SolutionText(const Profile& profile, const Solution& solution, int64_t smallest_budget) {
  const PlanCost& cost = solution.cost;
  std::string text = absl::StrFormat("plan of %s: %d layers, prefetch %d\n", profile.description, profile.layer_count(),
                                     solution.plan.prefetch);
  absl::StrAppend(&text, LayerLines(profile, solution.plan));
  absl::StrAppend(&text, "predicted step time: ", Seconds(cost.time_ns), "; ",
                  BoundText(cost.time_ns, solution.bound_ns), "\n");
  absl::StrAppend(&text, "predicted peak: ", cost.peak_bytes, " bytes (", FormatBytes(cost.peak_bytes), "), in ",
                  cost.peak_step, "; ", FormatBytes(cost.host_bytes), " of host memory\n");
  absl::StrAppend(&text, "smallest memory_budget: ", smallest_budget, "\n");
  return text;
}

std::string SolutionJson(const Profile& profile, const Solution& solution, int64_t smallest_budget) {
  return Dump({{"step_ns", solution.cost.time_ns},
               {"bound_ns", solution.bound_ns},
               {"peak_bytes", solution.cost.peak_bytes},
               {"peak_step", solution.cost.peak_step},
               {"host_bytes", solution.cost.host_bytes},
               {"smallest_budget", smallest_budget},
               {"prefetch", solution.plan.prefetch},
               {"layers", LayersJson(profile, solution.plan)}});
}

std::string EstimateText(const JobPlan& job) {
  if (!job.estimate.has_value()) return "";
  const StepEstimate& estimate = *job.estimate;
  std::string text = absl::StrCat("predicted step time: ", Seconds(estimate.step_ns));
  if (estimate.bound_ns > 0) {
    absl::StrAppend(&text, " (", Seconds(estimate.class_ns), " by the planner's rules); ",
                    BoundText(estimate.class_ns, estimate.bound_ns));
  }
  return absl::StrCat(text, "\n");
}

std::string SmallestBudgetsText(const JobPlan& job, const SmallestBudgets& smallest) {
  const auto found = [](int64_t bytes, bool proven) {
    return absl::StrCat(proven ? "" : "at most ", bytes, " (", FormatBytes(bytes), ")");
  };
  std::string text =
      absl::StrCat("smallest memory_budget of checkpoint=auto: ", found(smallest.resident, smallest.resident_proven),
                   ", with offload=activations ", found(smallest.offloaded, smallest.offloaded_proven), "\n");
  int64_t boundaries = 0;
  for (int64_t layer = 1; layer <= job.profile->layer_count(); ++layer) {
    boundaries += job.profile->blocks[static_cast<size_t>(layer)].boundary_bytes;
  }
  const int64_t saved = smallest.resident - smallest.offloaded;
  if (saved <= 0) {
    absl::StrAppend(&text, "offloading boundaries would not lower it: what sets the peak is not the boundaries\n");
  } else if (saved < boundaries / 2) {
    absl::StrAppend(&text, "offloading boundaries, ", FormatBytes(boundaries), " in all, would lower it by ",
                    FormatBytes(saved), " only: what sets the peak is mostly not the boundaries\n");
  }
  return text;
}

std::string PlanJson(const JobPlan& job, const SmallestBudgets& smallest) {
  const StepEstimate& estimate = *job.estimate;
  return Dump({{"checkpoint", job.options.checkpoint},
               {"ranks", job.units.ranks},
               {"parameters", job.units.parameter_count()},
               {"step_ns", estimate.step_ns},
               {"class_ns", estimate.class_ns},
               {"bound_ns", estimate.bound_ns},
               {"peak_bytes", job.device_bytes()},
               {"host_bytes", job.host_bytes()},
               {"smallest_budget", smallest.resident},
               {"smallest_budget_offloaded", smallest.offloaded},
               {"prefetch", job.plan.prefetch},
               {"layers", LayersJson(*job.profile, job.plan)}});
}

}  // namespace reprise
