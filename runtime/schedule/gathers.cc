#include "runtime/schedule/gathers.h"

#include <algorithm>

namespace reprise {

void EmitGather(const UnitLayout& units, int32_t unit, const Operand& whole, int32_t micro_batch,
                ScheduleBuilder* builder) {
  Instruction& gather = builder->Begin(InstructionKind::kGather, Stream::kGather);
  gather.unit = unit;
  gather.micro_batch = micro_batch;
  gather.from = builder->unit_state(unit).master_shard;
  gather.to = whole;
  gather.count = units.units[static_cast<size_t>(unit)].shard_elements;
  builder->Touch(gather.from, false);
  builder->Touch(gather.to, true);
  builder->End();
}

void Gathers::Plan(const std::vector<ComputeStep>& order) {
  gathered_.assign(units_.units.size(), {});
  if (sharding_ != Sharding::kFull) return;
  int32_t previous = -1;
  for (size_t i = 0; i < order.size(); ++i) {
    const ComputeStep& step = order[i];
    const int32_t group = step.needs_parameters ? units_.group_of_block[static_cast<size_t>(step.block)] : -1;
    if (group >= 0 && group != previous) {
      const bool is_whole = step.stays_gathered && step.kind != InstructionKind::kForward;
      runs_.push_back({group, i, i, !is_whole});
    }
    if (group >= 0) runs_.back().last = i;
    previous = group;
  }
}

void Gathers::EmitBefore(size_t step, int32_t micro_batch) {
  while (next_run_ < runs_.size() && runs_[next_run_].first <= step) ++next_run_;
  if (next_run_ == 0 || runs_[next_run_ - 1].first != step) return;
  const size_t target = std::min(next_run_ + static_cast<size_t>(prefetch_), runs_.size());
  for (; issued_ < target; ++issued_) {
    if (!runs_[issued_].gathers) continue;
    for (const int32_t unit : UnitsOf(runs_[issued_])) {
      const Unit& u = units_.units[static_cast<size_t>(unit)];
      const int64_t bytes = u.whole_elements * SizeOf(dtype_);
      const Operand whole{builder_->AddItem(u.name + " gathered", bytes, ItemKind::kGathered), 0, 0};
      pending_[unit].push_back(whole);
      EmitGather(units_, unit, whole, micro_batch, builder_);
    }
  }
  const Run& own = runs_[next_run_ - 1];
  if (!own.gathers) return;  // as it was left by the layer's forward
  for (const int32_t unit : UnitsOf(own)) {
    gathered_[static_cast<size_t>(unit)] = pending_[unit].front();
    pending_[unit].erase(pending_[unit].begin());
  }
}

void Gathers::EndStep(size_t step) {
  if (next_run_ == 0 || runs_[next_run_ - 1].last != step) return;
  for (const int32_t unit : UnitsOf(runs_[next_run_ - 1])) {
    Item& whole = builder_->item(gathered_[static_cast<size_t>(unit)].item);
    whole.last = std::max(whole.last, builder_->next_tick() - 1);
  }
}

std::vector<int32_t> Gathers::UnitsOf(const Run& run) const {
  return units_.groups[static_cast<size_t>(run.group)].units();
}

Operand Gathers::WholeParameters(int32_t unit) const {
  return sharding_ == Sharding::kFull ? gathered_[static_cast<size_t>(unit)] : builder_->unit_state(unit).whole;
}

}  // namespace reprise
