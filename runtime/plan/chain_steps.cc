#include "runtime/plan/chain_steps.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

absl::Status Refuse(int64_t layer, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("plan: layer ", layer, " of the chain ", what));
}

absl::StatusOr<const OptionProfile*> FindOption(const BlockProfile& block, int64_t layer, const LayerPlan& chosen) {
  for (const OptionProfile& option : block.options) {
    if (option.keep == chosen.keep && (chosen.keep != Keep::kSet || option.set == chosen.set)) return &option;
  }
  return Refuse(layer, absl::StrCat("keeps saved set ", chosen.set, ", which the profile does not have"));
}

absl::Status CheckSegmentStart(const Plan& plan, int64_t layer) {
  const LayerPlan& chosen = plan.layers[static_cast<size_t>(layer - 1)];
  if (chosen.starts_segment) return absl::OkStatus();
  if (layer == 1) return Refuse(layer, "is the first; it must start a segment");
  if (chosen.keep != Keep::kBoundary || plan.layers[static_cast<size_t>(layer - 2)].keep != Keep::kBoundary) {
    return Refuse(layer, "shares a boundary with the layer before it; both must keep nothing else");
  }
  if (chosen.offload_boundary) return Refuse(layer, "offloads a boundary that is not retained: it starts no segment");
  return absl::OkStatus();
}

absl::Status CheckSegment(const Profile& profile, const Plan& plan, const ChainSegment& segment) {
  if (segment.offloaded && !segment.boundary_retained) {
    return Refuse(segment.first, "offloads a boundary that nothing in backward reads");
  }
  if (profile.forward_only(segment.first) &&
      (segment.several() || plan.layers[static_cast<size_t>(segment.first - 1)].keep != Keep::kEverything)) {
    return Refuse(segment.first, "has no backward; it must keep everything, which is nothing");
  }
  for (int64_t layer = segment.first; layer <= segment.last; ++layer) {
    if (!plan.layers[static_cast<size_t>(layer - 1)].stays_gathered) continue;
    if (profile.forward_only(layer)) return Refuse(layer, "stays gathered for a backward that it does not have");
    if (!profile.gathers) return Refuse(layer, "stays gathered, but the profile's parameters are never sharded");
    if (segment.several()) return Refuse(layer, "stays gathered in a segment of several layers");
  }
  return absl::OkStatus();
}

absl::Status FindSegments(const Profile& profile, const Plan& plan, ChainSteps* chain) {
  const int64_t layers = profile.layer_count();
  chain->options.assign(profile.blocks.size(), nullptr);
  chain->segment_of.assign(profile.blocks.size(), -1);
  for (int64_t layer = 1; layer <= layers; ++layer) {
    const auto block = static_cast<size_t>(layer);
    const LayerPlan& chosen = plan.layers[block - 1];
    ASSIGN_OR_RETURN(chain->options[block], FindOption(profile.blocks[block], layer, chosen));
    RETURN_IF_ERROR(CheckSegmentStart(plan, layer));
    if (chosen.starts_segment) {
      chain->segments.push_back({layer, layer, chain->options[block]->reads_boundary, chosen.offload_boundary});
    } else {
      chain->segments.back().last = layer;
    }
    chain->segment_of[block] = static_cast<int64_t>(chain->segments.size()) - 1;
  }
  for (const ChainSegment& segment : chain->segments) RETURN_IF_ERROR(CheckSegment(profile, plan, segment));
  return absl::OkStatus();
}

void AddBackwardOf(int64_t index, ChainSteps* chain) {
  const ChainSegment& segment = chain->segments[static_cast<size_t>(index)];
  const size_t start = chain->steps.size();
  if (segment.several()) {
    for (int64_t layer = segment.first; layer <= segment.last; ++layer) {
      chain->steps.push_back({StepKind::kRecompute, layer, index});
    }
  } else if (chain->options[static_cast<size_t>(segment.first)]->recompute_ns > 0) {
    chain->steps.push_back({StepKind::kRecompute, segment.first, index});
  }
  for (int64_t layer = segment.last; layer >= segment.first; --layer) {
    chain->steps.push_back({StepKind::kBackward, layer, index});
  }
  chain->steps[start].starts_segment = true;
}

// The first and the last block share one unit, the root.
void CutIntoSlots(int64_t last_block, ChainSteps* chain) {
  int64_t unit = -1;
  for (size_t s = 0; s < chain->steps.size(); ++s) {
    ChainStep& step = chain->steps[s];
    if (step.kind == StepKind::kBackward && step.block == 0) continue;
    const int64_t own = step.block == last_block ? 0 : step.block;
    step.starts_slot = own != unit;
    if (step.starts_slot) chain->first_step_of_slot.push_back(static_cast<int64_t>(s));
    step.slot = static_cast<int64_t>(chain->first_step_of_slot.size()) - 1;
    unit = own;
  }
}

}  // namespace

absl::StatusOr<ChainSteps> StepsOf(const Profile& profile, const Plan& plan) {
  const int64_t layers = profile.layer_count();
  if (static_cast<int64_t>(plan.layers.size()) != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: it is for ", plan.layers.size(), " layers, and the profile has ", layers));
  }
  if (plan.prefetch < 0 || plan.prefetch > 3) {
    return absl::InvalidArgumentError(absl::StrCat("plan: prefetch is ", plan.prefetch, "; it must be 0 to 3"));
  }
  ChainSteps chain;
  RETURN_IF_ERROR(FindSegments(profile, plan, &chain));
  for (int64_t block = 0; block <= layers; ++block) chain.steps.push_back({StepKind::kForward, block});
  chain.steps.push_back({StepKind::kHead, layers + 1});
  for (auto s = static_cast<int64_t>(chain.segments.size()) - 1; s >= 0; --s) {
    if (!profile.forward_only(chain.segments[static_cast<size_t>(s)].first)) AddBackwardOf(s, &chain);
  }
  if (!profile.forward_only(0)) chain.steps.push_back({StepKind::kBackward, 0});
  CutIntoSlots(layers + 1, &chain);
  return chain;
}

std::string StepName(const Profile& profile, const ChainStep& step) {
  static constexpr const char* kWords[] = {"forward of ", "forward and backward of ", "recompute of ", "backward of "};
  const std::string& name = profile.blocks[static_cast<size_t>(step.block)].name;
  return absl::StrCat(kWords[static_cast<size_t>(step.kind)], name.empty() ? absl::StrCat("block ", step.block) : name);
}

}  // namespace reprise
