// The compute instructions of a step, in order, before memory and other streams are thought of.
#ifndef REPRISE_RUNTIME_SCHEDULE_COMPUTE_ORDER_H_
#define REPRISE_RUNTIME_SCHEDULE_COMPUTE_ORDER_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

struct ComputeStep {
  InstructionKind kind = InstructionKind::kForward;  // kForward, kHead, kRecompute or kBackward
  int32_t block = 0;
  int32_t micro_batch = 0;
  bool keeps_saved = false;  // kForward: what backward reads, or a saved set, is retained
  bool through = false;      // kRecompute: the block's output is made again, too
  bool needs_parameters = true;
  bool stays_gathered = false;  // kForward, kRecompute, kBackward: one gather serves forward and backward of the block
  int32_t reload_before = -1;   // block whose offloaded boundary starts its way back before this step
};

// Forward of every block, head, then backward, segment by segment from the last; again for each micro-batch.
// `recomputes`, by layer: whether what the plan keeps leaves anything to run again; empty: wherever it does not keep
// everything. A segment of several layers is recomputed in any case. Blocks before `first_backward` have no backward.
std::vector<ComputeStep> TrainingOrder(const Plan& plan, int micro_batches, const std::vector<bool>& recomputes = {},
                                       int32_t first_backward = 0);

// Forward of every block; the last as kHead.
std::vector<ComputeStep> EvaluationOrder(int32_t layers);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_COMPUTE_ORDER_H_
