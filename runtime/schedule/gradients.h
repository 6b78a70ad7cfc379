// Gradients: which buffer the parameter gradients of a step go to, and when a unit's are reduced over ranks.
//
// With a reduction in each micro-batch every step has a fresh buffer, and its sum over ranks is added to the shard.
// Otherwise whole gradients are accumulated in one buffer for the step and reduced in its last micro-batch.
#ifndef REPRISE_RUNTIME_SCHEDULE_GRADIENTS_H_
#define REPRISE_RUNTIME_SCHEDULE_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/schedule/compute_order.h"
#include "runtime/schedule/schedule_builder.h"

namespace reprise {

class Gradients {
 public:
  Gradients(const Program& program, const UnitLayout& units, Sharding sharding, int micro_batches,
            ScheduleBuilder* builder);

  // Chooses the buffer that this step's parameter gradients go to, and zeroes what no kernel writes of a fresh one. A
  // block whose parameters are all frozen has none.
  absl::Status Begin(const ComputeStep& step);

  // Where the gradient `value` of a parameter goes; item -1 for a value that is none.
  Operand Place(const ComputeStep& step, ValueId value, bool* accumulate) const;

  // Reduces a unit's gradients where its turn has come: into the shard, or in place into this rank's part.
  void EmitReduce(const ComputeStep& step);

  // This rank's shard of the sums, by unit; item -1 for one that is frozen.
  const std::vector<Operand>& shards() const { return shard_; }

 private:
  const ProgramGraph& GraphOf(const ComputeStep& step) const { return program_.graph(static_cast<size_t>(step.block)); }
  int32_t UnitOf(const ComputeStep& step) const {
    return GradientUnitOf(program_, units_, static_cast<size_t>(step.block));
  }
  bool LastMicroBatch(const ComputeStep& step) const { return step.micro_batch + 1 == micro_batches_; }
  bool UsesStepBuffer(int32_t unit) const;
  absl::Status ZeroUnwritten(const ComputeStep& step, const Unit& unit);

  const Program& program_;
  const UnitLayout& units_;
  const Sharding sharding_;
  const int micro_batches_;
  ScheduleBuilder* builder_;
  std::vector<Operand> whole_;  // step buffers, by unit
  std::vector<Operand> shard_;  // by unit
  Operand current_;
  bool adds_ = false;  // the current buffer holds gradients already
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_GRADIENTS_H_
