// Plan: what a step keeps of each layer's forward, and where. Plain data; chosen by hand (by_hand.h) or by a planner.
#ifndef REPRISE_RUNTIME_PLAN_PLAN_H_
#define REPRISE_RUNTIME_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

enum class Keep : uint8_t {
  kEverything,  // all that backward reads
  kSet,         // a saved set of the block's graph: what is missing runs again
  kBoundary,    // only the boundary before the segment; the layer's forward runs again
};

struct LayerPlan {
  Keep keep = Keep::kEverything;
  int32_t set = -1;               // kSet: index into the saved sets of the layer's graph
  bool starts_segment = true;     // false: shares the boundary of the layer before (both kBoundary)
  bool offload_boundary = false;  // the boundary before this layer waits in host memory; needs starts_segment
  bool stays_gathered =
      false;  // full sharding: parameters stay whole from forward to backward; no other layer in its segment
};

struct Plan {
  std::string policy;  // as the user wrote it
  std::vector<LayerPlan> layers;
  int prefetch = 1;  // units gathered ahead under full sharding

  int64_t segment_count() const;  // of recomputed layers
  int64_t offloaded_boundaries() const;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_PLAN_H_
