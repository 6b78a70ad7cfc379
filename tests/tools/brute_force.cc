#include "tests/tools/brute_force.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/tools/every_plan.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

// Takes one choice away, drawn; may draw one that is not there to take.
void Thin(std::mt19937_64& random, SmallChain* chain) {
  PlanLimits& limits = chain->limits;
  switch (RandomBetween(random, 0, 9)) {
    case 0:
      limits.largest_prefetch = std::max(limits.smallest_prefetch, limits.largest_prefetch - 1);
      return;
    case 1:
      limits.longest_segment = std::max<int64_t>(1, limits.longest_segment - 1);
      return;
    case 2:
      if (RandomChance(random, 0.3)) limits.offloads = false;
      return;
    case 3:
      if (RandomChance(random, 0.3)) limits.stays_gathered = false;
      return;
    default:
      break;
  }
  if (chain->profile.layer_count() == 0) return;
  const int64_t layer = RandomBetween(random, 1, chain->profile.layer_count());
  std::vector<OptionProfile>& options = chain->profile.blocks[static_cast<size_t>(layer)].options;
  const auto count = static_cast<int64_t>(options.size());
  if (count > 2) options.erase(options.begin() + RandomBetween(random, 1, count - 2));
}

}  // namespace

SmallChain DrawSmallChain(uint64_t seed, int64_t most_plans) {
  std::mt19937_64 random(seed);
  // Few layers are soon tried; most chains have more.
  SmallChain chain{.profile = RandomProfile(seed, {.smallest_layers = seed % 10 == 0 ? 0 : 2}), .limits = {}};
  chain.limits = RandomLimits(chain.profile, random);
  while (CountPlans(chain.profile, chain.limits) > most_plans) Thin(random, &chain);
  return chain;
}

BruteForce::BruteForce(const Profile& profile, const PlanLimits& limits) {
  PlanOracle oracle(profile);
  ForEachPlan(profile, limits, [&](const Plan& plan) { costs_.push_back(oracle.Cost(plan)); });
}

std::optional<int64_t> BruteForce::FastestNs(int64_t memory_budget_bytes, int64_t host_budget_bytes) const {
  std::optional<int64_t> fastest;
  for (const OracleCost& cost : costs_) {
    if (cost.peak_bytes > memory_budget_bytes || cost.host_bytes > host_budget_bytes) continue;
    if (!fastest || cost.time_ns < *fastest) fastest = cost.time_ns;
  }
  return fastest;
}

int64_t BruteForce::SmallestBudget(int64_t host_budget_bytes) const {
  int64_t smallest = INT64_MAX;
  for (const OracleCost& cost : costs_) {
    if (cost.host_bytes <= host_budget_bytes) smallest = std::min(smallest, cost.peak_bytes);
  }
  return smallest;
}

int64_t BruteForce::SomePeak(std::mt19937_64& random) const {
  return costs_[static_cast<size_t>(RandomBetween(random, 0, plan_count() - 1))].peak_bytes;
}

int64_t BruteForce::SomeHostBytes(std::mt19937_64& random) const {
  return costs_[static_cast<size_t>(RandomBetween(random, 0, plan_count() - 1))].host_bytes;
}

std::string WhyOutsideLimits(const Profile& profile, const PlanLimits& limits, const Plan& plan) {
  const int64_t n = profile.layer_count();
  if (static_cast<int64_t>(plan.layers.size()) != n) return absl::StrCat(plan.layers.size(), " layers");
  if (plan.prefetch < limits.smallest_prefetch || plan.prefetch > limits.largest_prefetch) {
    return absl::StrCat("prefetch ", plan.prefetch);
  }
  int64_t length = 0;
  for (int64_t i = 0; i < n; ++i) {
    const LayerPlan& layer = plan.layers[static_cast<size_t>(i)];
    const int option = OptionIndexOf(profile, plan, i);
    length = layer.starts_segment ? 1 : length + 1;
    const bool shares = !layer.starts_segment || (i + 1 < n && !plan.layers[static_cast<size_t>(i + 1)].starts_segment);
    std::string wrong;
    if (option < 0) wrong = "has no such option";
    if (i == 0 && !layer.starts_segment) wrong = "shares a boundary with no layer";
    if (length > limits.longest_segment) wrong = "is in too long a segment";
    if (shares && layer.keep != Keep::kBoundary) wrong = "keeps more than the boundary in a segment of several";
    if (layer.offload_boundary && (!limits.offloads || !layer.starts_segment)) wrong = "offloads what it may not";
    if (option >= 0 && layer.offload_boundary &&
        !profile.blocks[static_cast<size_t>(i + 1)].options[static_cast<size_t>(option)].reads_boundary) {
      wrong = "offloads what nobody reads";
    }
    if (layer.stays_gathered && (!limits.stays_gathered || !profile.gathers || shares)) wrong = "may not stay gathered";
    if (profile.forward_only(i + 1) && !(layer.keep == Keep::kEverything && layer.starts_segment &&
                                         !layer.offload_boundary && !layer.stays_gathered)) {
      wrong = "has no backward to keep anything for";
    }
    if (!wrong.empty()) return absl::StrCat("layer ", i + 1, " ", wrong);
  }
  return "";
}

}  // namespace reprise::testing
