#include "runtime/schedule/compute_order.h"

namespace reprise {
namespace {

struct Segment {
  int32_t first = 0;  // layers
  int32_t last = 0;
  bool recomputed = false;
  bool offloaded = false;
};

std::vector<Segment> SegmentsOf(const Plan& plan) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    const auto index = static_cast<int32_t>(i);
    const bool recomputed = layer.keep == Keep::kBoundary;
    if (recomputed && !layer.starts_segment && !segments.empty() && segments.back().recomputed) {
      segments.back().last = index;
    } else {
      segments.push_back({index, index, recomputed, recomputed && layer.offload_boundary});
    }
  }
  return segments;
}

int32_t BlockOfLayer(int32_t layer) { return layer + 1; }

void AppendBackward(const Segment& segment, int32_t reload_before, int32_t micro_batch,
                    std::vector<ComputeStep>* order) {
  const size_t start = order->size();
  if (segment.recomputed) {
    for (int32_t layer = segment.first; layer <= segment.last; ++layer) {
      order->push_back({.kind = InstructionKind::kRecompute,
                        .block = BlockOfLayer(layer),
                        .micro_batch = micro_batch,
                        .through = layer < segment.last});
    }
  }
  for (int32_t layer = segment.last; layer >= segment.first; --layer) {
    order->push_back({.kind = InstructionKind::kBackward, .block = BlockOfLayer(layer), .micro_batch = micro_batch});
  }
  (*order)[start].reload_before = reload_before;
}

}  // namespace

std::vector<ComputeStep> TrainingOrder(const Plan& plan, int micro_batches) {
  std::vector<ComputeStep> order;
  const std::vector<Segment> segments = SegmentsOf(plan);
  const auto layers = static_cast<int32_t>(plan.layers.size());
  for (int32_t m = 0; m < micro_batches; ++m) {
    order.push_back({.kind = InstructionKind::kForward, .block = 0, .micro_batch = m});
    for (int32_t layer = 0; layer < layers; ++layer) {
      order.push_back({.kind = InstructionKind::kForward,
                       .block = BlockOfLayer(layer),
                       .micro_batch = m,
                       .keeps_saved = plan.layers[static_cast<size_t>(layer)].keep == Keep::kEverything});
    }
    order.push_back({.kind = InstructionKind::kHead, .block = layers + 1, .micro_batch = m});
    for (size_t s = segments.size(); s-- > 0;) {
      const int32_t reload = s > 0 && segments[s - 1].offloaded ? BlockOfLayer(segments[s - 1].first) : -1;
      AppendBackward(segments[s], reload, m, &order);
    }
    order.push_back({.kind = InstructionKind::kBackward, .block = 0, .micro_batch = m, .needs_parameters = false});
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
