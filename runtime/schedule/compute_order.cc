#include "runtime/schedule/compute_order.h"

namespace reprise {
namespace {

struct Segment {
  int32_t first = 0;  // layers
  int32_t last = 0;
  bool recomputed = false;
  bool offloaded = false;
  bool stays_gathered = false;
};

std::vector<Segment> SegmentsOf(const Plan& plan, const std::vector<bool>& recomputes) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    const auto index = static_cast<int32_t>(i);
    if (!layer.starts_segment && !segments.empty()) {
      segments.back().last = index;
      segments.back().recomputed = true;
    } else {
      const bool recomputed = layer.keep != Keep::kEverything && (recomputes.empty() || recomputes[i]);
      segments.push_back({index, index, recomputed, layer.offload_boundary, layer.stays_gathered});
    }
  }
  return segments;
}

int32_t BlockOfLayer(int32_t layer) { return layer + 1; }

void AppendBackward(const Segment& segment, int32_t micro_batch, std::vector<ComputeStep>* order) {
  const auto append = [&](InstructionKind kind, int32_t layer) {
    order->push_back({.kind = kind,
                      .block = BlockOfLayer(layer),
                      .micro_batch = micro_batch,
                      .through = kind == InstructionKind::kRecompute && layer < segment.last,
                      .stays_gathered = segment.stays_gathered});
  };
  if (segment.recomputed) {
    for (int32_t layer = segment.first; layer <= segment.last; ++layer) append(InstructionKind::kRecompute, layer);
  }
  for (int32_t layer = segment.last; layer >= segment.first; --layer) append(InstructionKind::kBackward, layer);
}

// Head, and backward from the last segment on. A boundary starts its way back before the steps of what runs ahead of
// its own segment: the segment behind it, or the head.
void AppendHeadAndBackward(const std::vector<Segment>& segments, int32_t layers, int32_t micro_batch,
                           int32_t first_backward, std::vector<ComputeStep>* order) {
  const auto reload = [&](size_t behind) {  // of the segment ahead of segment `behind`
    return behind > 0 && segments[behind - 1].offloaded ? BlockOfLayer(segments[behind - 1].first) : -1;
  };
  order->push_back({.kind = InstructionKind::kHead,
                    .block = layers + 1,
                    .micro_batch = micro_batch,
                    .reload_before = reload(segments.size())});
  for (size_t s = segments.size(); s-- > 0 && BlockOfLayer(segments[s].first) >= first_backward;) {
    const size_t start = order->size();
    AppendBackward(segments[s], micro_batch, order);
    (*order)[start].reload_before = reload(s);
  }
  if (first_backward > 0) return;
  order->push_back(
      {.kind = InstructionKind::kBackward, .block = 0, .micro_batch = micro_batch, .needs_parameters = false});
}

}  // namespace

std::vector<ComputeStep> TrainingOrder(const Plan& plan, int micro_batches, const std::vector<bool>& recomputes,
                                       int32_t first_backward) {
  std::vector<ComputeStep> order;
  const std::vector<Segment> segments = SegmentsOf(plan, recomputes);
  const auto layers = static_cast<int32_t>(plan.layers.size());
  for (int32_t m = 0; m < micro_batches; ++m) {
    order.push_back({.kind = InstructionKind::kForward, .block = 0, .micro_batch = m});
    for (int32_t layer = 0; layer < layers; ++layer) {
      const LayerPlan& p = plan.layers[static_cast<size_t>(layer)];
      order.push_back({.kind = InstructionKind::kForward,
                       .block = BlockOfLayer(layer),
                       .micro_batch = m,
                       .keeps_saved = p.keep != Keep::kBoundary,
                       .stays_gathered = p.stays_gathered});
    }
    AppendHeadAndBackward(segments, layers, m, first_backward, &order);
  }
  return order;
}

std::vector<ComputeStep> EvaluationOrder(int32_t layers) {
  std::vector<ComputeStep> order;
  for (int32_t block = 0; block <= layers; ++block)
    order.push_back({.kind = InstructionKind::kForward, .block = block});
  order.push_back({.kind = InstructionKind::kHead, .block = layers + 1});
  return order;
}

}  // namespace reprise
