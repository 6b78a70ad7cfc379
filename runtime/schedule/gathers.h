// Gathers: when a group's parameters become whole on this rank, and where they stand then.
//
// Under full sharding the units of a group are gathered for each run of neighbouring steps that need them, so one
// gather serves recompute and backward of a one-block segment, and is issued plan.prefetch runs before its own begins.
// A layer that stays gathered is still whole when its backward comes: that run has no gather.
//
// A gathered unit counts as whole to the end of the last step of its run.
#ifndef REPRISE_RUNTIME_SCHEDULE_GATHERS_H_
#define REPRISE_RUNTIME_SCHEDULE_GATHERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/schedule/compute_order.h"
#include "runtime/schedule/schedule_builder.h"
#include "runtime/tensor/types.h"

namespace reprise {

// Appends one gather, from the masters' shards into `whole`.
void EmitGather(const UnitLayout& units, int32_t unit, const Operand& whole, int32_t micro_batch,
                ScheduleBuilder* builder);

class Gathers {
 public:
  Gathers(const UnitLayout& units, Sharding sharding, DType dtype, int prefetch, ScheduleBuilder* builder)
      : units_(units), sharding_(sharding), dtype_(dtype), prefetch_(prefetch), builder_(builder) {}

  void Plan(const std::vector<ComputeStep>& order);

  // Issues gathers so that, before step `step` runs, those of `prefetch` runs beyond its own are on their way.
  void EmitBefore(size_t step, int32_t micro_batch);

  // After the last tick of step `step`.
  void EndStep(size_t step);

  // Where the step at hand finds the unit's parameters.
  Operand WholeParameters(int32_t unit) const;

 private:
  // Neighbouring steps of one group.
  struct Run {
    int32_t group = 0;
    size_t first = 0;  // steps
    size_t last = 0;
    bool gathers = true;
  };

  std::vector<int32_t> UnitsOf(const Run& run) const;

  const UnitLayout& units_;
  const Sharding sharding_;
  const DType dtype_;
  const int prefetch_;
  ScheduleBuilder* builder_;
  std::vector<Run> runs_;
  size_t next_run_ = 0;  // runs that started at or before the step at hand
  size_t issued_ = 0;
  std::map<int32_t, std::vector<Operand>> pending_;  // issued and not yet used, by unit
  std::vector<Operand> gathered_;                    // in use, by unit
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_GATHERS_H_
