#include "runtime/schedule/plan_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

bool SharesBoundary(const Plan& plan, size_t layer) {  // with the layer behind it
  return layer + 1 < plan.layers.size() && !plan.layers[layer + 1].starts_segment;
}

const SavedSet& SetOf(const Program& program, const Plan& plan, size_t layer) {
  return program.graph(layer + 1).saved_sets[static_cast<size_t>(plan.layers[layer].set)];
}

absl::Status CheckLayer(const Program& program, const Plan& plan, size_t i) {
  const LayerPlan& layer = plan.layers[i];
  const auto error = [i](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("the plan's layer ", i, " ", what));
  };
  const auto sets = static_cast<int32_t>(program.graph(i + 1).saved_sets.size());
  if (layer.keep == Keep::kSet && (layer.set < 0 || layer.set >= sets)) {
    return error(absl::StrCat("keeps saved set ", layer.set, " of ", sets));
  }
  if (!layer.starts_segment &&
      (i == 0 || layer.keep != Keep::kBoundary || plan.layers[i - 1].keep != Keep::kBoundary)) {
    return error("shares a boundary; it and the layer before must both keep the boundary only");
  }
  if (layer.stays_gathered && (!layer.starts_segment || SharesBoundary(plan, i))) {
    return error("stays gathered in a segment of several layers; only one of its own can");
  }
  const bool forward_only = static_cast<int64_t>(i) + 1 < program.first_backward;
  if (forward_only && (layer.keep != Keep::kEverything || layer.offload_boundary || layer.stays_gathered)) {
    return error("has no backward: nothing below it is trained; it must keep everything, which is nothing");
  }
  if (!layer.offload_boundary) return absl::OkStatus();
  if (!layer.starts_segment) return error("offloads a boundary that no segment starts with");
  const std::vector<bool> reads = ReadsOfBoundary(program, plan, i);
  if (std::find(reads.begin(), reads.end(), true) == reads.end()) return error("offloads a boundary that nobody reads");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlan(const Program& program, const Plan& plan) {
  if (plan.layers.size() != program.layer_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.layers.size(), " layers and the model ", program.layer_count()));
  }
  if (plan.prefetch < 0) return absl::InvalidArgumentError(absl::StrCat("the plan has prefetch ", plan.prefetch));
  for (size_t i = 0; i < plan.layers.size(); ++i) RETURN_IF_ERROR(CheckLayer(program, plan, i));
  return absl::OkStatus();
}

std::vector<bool> ReadsOfBoundary(const Program& program, const Plan& plan, size_t layer) {
  const ProgramGraph& graph = program.graph(layer + 1);
  std::vector<const Routine*> routines = {&graph.routines.backward};
  const Keep keep = plan.layers[layer].keep;
  if (keep == Keep::kSet) routines.push_back(&SetOf(program, plan, layer).recompute);
  if (keep == Keep::kBoundary) {
    routines.push_back(SharesBoundary(plan, layer) ? &graph.routines.recompute_through : &graph.routines.recompute);
  }
  return BoundaryReads(graph.block.graph, routines);
}

std::vector<bool> RecomputedLayers(const Program& program, const Plan& plan) {
  std::vector<bool> recomputed;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Keep keep = plan.layers[i].keep;
    recomputed.push_back((keep == Keep::kSet && !SetOf(program, plan, i).recompute.nodes.empty()) ||
                         (keep == Keep::kBoundary && !program.graph(i + 1).routines.recompute.nodes.empty()));
  }
  return recomputed;
}

}  // namespace reprise
