#include "tests/tools/random_plan.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace reprise::testing {

Plan RandomPlan(const RandomPlanOptions& options, std::mt19937_64* random) {
  // Not std::uniform_int_distribution: the same plans with every standard library.
  const auto draw = [random](int below) { return static_cast<int>((*random)() % static_cast<uint64_t>(below)); };
  Plan plan;
  plan.policy = "random";
  plan.prefetch = draw(options.largest_prefetch + 1);
  plan.layers.resize(static_cast<size_t>(options.layers));
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    LayerPlan& layer = plan.layers[i];
    const int choice = draw(options.sets > 0 ? 4 : 3);
    layer.keep = choice == 0 ? Keep::kEverything : choice == 3 ? Keep::kSet : Keep::kBoundary;
    if (layer.keep == Keep::kSet) layer.set = draw(options.sets);
    const bool may_share = i > 0 && layer.keep == Keep::kBoundary && plan.layers[i - 1].keep == Keep::kBoundary;
    layer.starts_segment = !(may_share && draw(2) == 0);
    if (!layer.starts_segment) {
      plan.layers[i - 1].stays_gathered = false;
      continue;
    }
    layer.offload_boundary = options.offloads && draw(2) == 0;
    layer.stays_gathered = options.stays_gathered && draw(3) == 0;
  }
  return plan;
}

std::string PlanLetters(const Plan& plan) {
  std::string text = absl::StrCat("prefetch ", plan.prefetch, ":");
  for (const LayerPlan& layer : plan.layers) {
    absl::StrAppend(&text, " ");
    if (layer.keep == Keep::kSet) absl::StrAppend(&text, "s", layer.set);
    if (layer.keep == Keep::kEverything) absl::StrAppend(&text, "e");
    if (layer.keep == Keep::kBoundary) absl::StrAppend(&text, layer.starts_segment ? "B" : "b");
    absl::StrAppend(&text, layer.offload_boundary ? "+" : "", layer.stays_gathered ? "*" : "");
  }
  return text;
}

}  // namespace reprise::testing
