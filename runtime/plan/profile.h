// Profile: for every block and each way to run it, the bytes it takes and the time it needs. Plain data, from which a
// planner chooses and any plan can be priced (plan_cost.h). What each field counts, and the rules that turn a profile
// and a plan into a time and a peak, stand in docs/plan_profile.md.
//
//   ASSIGN_OR_RETURN(Profile profile, LoadProfile(storage, "gpt2.json"));
//   ASSIGN_OR_RETURN(PlanCost cost, CostOf(profile, plan));
//
// Times are nanoseconds. Sizes are bytes per rank, rounded up to the alignment of the arena.
#ifndef REPRISE_RUNTIME_PLAN_PROFILE_H_
#define REPRISE_RUNTIME_PLAN_PROFILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "device/device.h"
#include "runtime/plan/plan.h"

namespace reprise {

// One way to run a layer: what of its forward is kept for backward.
struct OptionProfile {
  std::string name;  // "everything", "boundary", or the operations whose outputs are kept
  Keep keep = Keep::kEverything;
  int32_t set = -1;                   // kSet: as LayerPlan::set
  bool reads_boundary = true;         // recompute or backward reads the boundary before the layer
  int64_t kept_bytes = 0;             // from forward to backward, without the boundary and gathered parameters
  int64_t recompute_ns = 0;           // 0: nothing is recomputed
  int64_t forward_bytes = 0;          // own bytes of the step F, where the boundary before it lives on
  int64_t forward_bytes_dropped = 0;  // ... and where it dies at its last use in F
  int64_t recompute_bytes = 0;        // own bytes of the step R
  int64_t backward_bytes = 0;         // own bytes of the step B
};

struct BlockProfile {
  std::string name;
  int64_t boundary_bytes = 0;  // before the block
  int64_t forward_ns = 0;      // the last block: forward and backward
  int64_t backward_ns = 0;
  int64_t gather_ns = 0;            // of the block's parameters; 0: there is nothing to gather
  int64_t reduce_ns = 0;            // of their gradients; 0: there is nothing to reduce
  int64_t offload_ns = 0;           // of the boundary before the block
  int64_t reload_ns = 0;            // likewise
  int64_t whole_bytes = 0;          // gathered parameters of its unit
  int64_t gradient_held_bytes = 0;  // live in the step after the one that made the block's gradients
  int64_t gradient_left_bytes = 0;  // live from then on
  // First and last block: own bytes of their steps. The last block's one step counts as forward.
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;
  // Layers in a segment of several.
  int64_t recompute_through_ns = 0;     // all that backward reads, and the boundary behind the layer
  int64_t recompute_through_bytes = 0;  // own bytes of that step
  int64_t remade_bytes = 0;             // what waits for backward behind it, with the boundary before the layer
  // Layers: keep everything first, boundary last, and between them saved sets by falling kept_bytes.
  std::vector<OptionProfile> options;
};

struct Profile {
  std::string description;  // model, shape, machine: for people
  int64_t state_bytes = 0;
  int64_t update_ns = 0;
  int64_t accumulation = 1;  // micro-batches a step
  bool gathers = false;      // full sharding: parameters are gathered and dropped in a step
  bool reduces = false;      // a micro-batch's gradients are summed over ranks (or into shards)
  // The first block with a backward: those before it have nothing to train, keep nothing and run forward only.
  int64_t first_backward = 0;
  // By stream: compute time lost to one of its transfers, in millionths of the transfer's own.
  std::array<int64_t, kStreamCount> interference_millionths = {};
  std::vector<BlockProfile> blocks;  // first block, layers, last block

  int64_t layer_count() const { return static_cast<int64_t>(blocks.size()) - 2; }
  bool forward_only(int64_t block) const { return block < first_backward; }
  int64_t forward_only_layers() const { return first_backward > 0 ? first_backward - 1 : 0; }
};

// InvalidArgument that names the block and the field: fewer than two blocks, a negative number, a layer without
// options or whose first is not everything or last not boundary, sums that could overflow.
absl::Status CheckProfile(const Profile& profile);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_PROFILE_H_
