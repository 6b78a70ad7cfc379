#include "runtime/plan/plan.h"

#include <algorithm>

namespace reprise {

int64_t Plan::segment_count() const {
  return std::count_if(layers.begin(), layers.end(),
                       [](const LayerPlan& l) { return l.keep == Keep::kBoundary && l.starts_segment; });
}

int64_t Plan::offloaded_boundaries() const {
  return std::count_if(layers.begin(), layers.end(), [](const LayerPlan& l) { return l.offload_boundary; });
}

}  // namespace reprise
