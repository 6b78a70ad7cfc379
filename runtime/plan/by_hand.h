// Plans by hand: --checkpoint=none, all, every:K, sqrt, selective, with or without --offload=activations.
//
//   ASSIGN_OR_RETURN(Plan plan, ByHand({.policy = "every:4", .layers = 12, .prefetch = 1}, predicted_peak));
#ifndef REPRISE_RUNTIME_PLAN_BY_HAND_H_
#define REPRISE_RUNTIME_PLAN_BY_HAND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan/plan.h"

namespace reprise {

// What `selective` means for one layer.
struct SelectiveLayer {
  int32_t set = -1;             // LayerPlan::set
  bool reads_boundary = false;  // with it, recompute or backward reads the boundary before the layer
};

struct HandPlan {
  std::string policy = "none";
  int64_t layers = 0;
  int64_t forward_only = 0;  // the first of them, without a backward: they keep nothing, the policy is for the others
  int prefetch = 1;
  bool offload_activations = false;
  int64_t boundary_bytes = 0;                  // of one retained boundary, as the host holds it
  int64_t host_budget_bytes = -1;              // -1: no cap
  std::vector<SelectiveLayer> selective = {};  // by layer; empty: `selective` is refused
};

// Predicted peak of device memory of a step with this plan, in bytes.
using PeakOf = std::function<absl::StatusOr<int64_t>(const Plan& plan)>;

// `sqrt` asks `peak_of` for every K and takes the least, ties to the smaller K (Chen et al. 2016, with the blocks' own
// sizes). `selective` keeps the same set for all layers, and each layer's boundary where it is read. Of the retained
// boundaries all but the last, which backward wants first, are offloaded, from the front, as many as the host budget
// holds. InvalidArgument for an unknown policy, or offload with nothing retained; ResourceExhausted if the host budget
// does not hold one boundary.
absl::StatusOr<Plan> ByHand(const HandPlan& request, const PeakOf& peak_of);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_BY_HAND_H_
