#include "runtime/schedule/update.h"

#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "runtime/schedule/gathers.h"

namespace reprise {
namespace {

absl::Status EmitNorm(const UnitLayout& units, const std::vector<Operand>& shards, ScheduleBuilder* builder) {
  builder->Begin(InstructionKind::kNorm, Stream::kCompute);
  const Operand squares{builder->schedule().scalars, kSquaresScalar * static_cast<int64_t>(sizeof(double)), 0};
  bool first = true;
  for (size_t unit = 0; unit < units.units.size(); ++unit) {
    if (!units.units[unit].trained) continue;
    Call call;
    call.inputs.push_back(shards[unit]);
    call.outputs.push_back(squares);
    call.accumulate = first ? 0U : 1U;
    first = false;
    RETURN_IF_ERROR(builder->AddCall(
        {"squared_sum", {{DType::kFloat32, {units.units[unit].shard_elements}}}, {{DType::kFloat64, {1}}}, {}},
        std::move(call)));
  }
  builder->End();
  return absl::OkStatus();
}

// Behind kFinish on every rank: where that stops the step, no rank may be left in a gather that another one skipped.
void EmitGatherGradients(const UnitLayout& units, const std::vector<Operand>& shards, ScheduleBuilder* builder) {
  for (size_t unit = 0; unit < units.units.size(); ++unit) {
    if (!units.units[unit].trained) continue;
    Instruction& gather = builder->Begin(InstructionKind::kGatherGradients, Stream::kGather);
    gather.unit = static_cast<int32_t>(unit);
    gather.from = shards[unit];
    gather.to = {shards[unit].item, 0, 0};
    gather.count = units.units[unit].shard_elements;
    builder->Touch({builder->schedule().scalars, 0, 0}, false);
    builder->Touch(gather.to, true);
    builder->End();
  }
}

void EmitUnitUpdate(const UnitLayout& units, Sharding sharding, int32_t unit, const Operand& shard,
                    ScheduleBuilder* builder) {
  const Unit& u = units.units[static_cast<size_t>(unit)];
  const UnitState& state = builder->unit_state(unit);
  Instruction& update = builder->Begin(InstructionKind::kUpdate, Stream::kCompute);
  update.unit = unit;
  const bool whole = sharding == Sharding::kNone;
  update.from = whole ? Operand{shard.item, 0, 0} : shard;
  update.to = state.master;
  update.count = whole ? u.whole_elements : u.shard_elements;
  builder->Touch(update.from, false);
  builder->Touch(update.to, true);
  for (const Operand& moment : state.moments) builder->Touch(moment, true);
  if (whole) builder->Touch(state.whole, true);  // cast from the master, in bf16
  builder->End();
  const bool gathers = sharding == Sharding::kGradients || sharding == Sharding::kOptimizer;
  if (gathers) EmitGather(units, unit, state.whole, -1, builder);
}

}  // namespace

absl::Status EmitUpdate(const UnitLayout& units, Sharding sharding, const std::vector<Operand>& gradient_shards,
                        ScheduleBuilder* builder) {
  RETURN_IF_ERROR(EmitNorm(units, gradient_shards, builder));
  const Operand scalars{builder->schedule().scalars, 0, 0};
  builder->Begin(InstructionKind::kSumScalars, Stream::kReduce);
  builder->Touch(scalars, true);
  builder->End();
  builder->Begin(InstructionKind::kFinish, Stream::kCompute);
  builder->Touch(scalars, true);  // the factor, which comes of them, is what others wait for
  builder->End();
  if (sharding == Sharding::kNone && units.ranks > 1) EmitGatherGradients(units, gradient_shards, builder);
  for (size_t unit = 0; unit < units.units.size(); ++unit) {
    if (!units.units[unit].trained) continue;
    EmitUnitUpdate(units, sharding, static_cast<int32_t>(unit), gradient_shards[unit], builder);
  }
  for (const Operand& shard : gradient_shards) {
    if (shard.item >= 0) builder->item(shard.item).last = builder->next_tick();
  }
  return absl::OkStatus();
}

}  // namespace reprise
