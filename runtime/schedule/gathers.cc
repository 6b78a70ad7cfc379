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
    const int32_t unit = order[i].needs_parameters ? units_.unit_of_block[static_cast<size_t>(order[i].block)] : -1;
    if (unit >= 0 && unit != previous) groups_.emplace_back(unit, i);
    previous = unit;
  }
}

void Gathers::EmitBefore(size_t step, int32_t micro_batch) {
  while (next_group_ < groups_.size() && groups_[next_group_].second <= step) ++next_group_;
  const size_t target = next_group_ + static_cast<size_t>(prefetch_);
  const bool starts_group = next_group_ > 0 && groups_[next_group_ - 1].second == step;
  if (!starts_group) return;
  for (; issued_ < std::min(target, groups_.size()); ++issued_) {
    const int32_t unit = groups_[issued_].first;
    const Unit& u = units_.units[static_cast<size_t>(unit)];
    const Operand whole{builder_->AddItem(u.name + " gathered", u.whole_elements * SizeOf(dtype_), ItemKind::kGathered),
                        0, 0};
    pending_[unit].push_back(whole);
    EmitGather(units_, unit, whole, micro_batch, builder_);
  }
  const int32_t own = groups_[next_group_ - 1].first;
  gathered_[static_cast<size_t>(own)] = pending_[own].front();
  pending_[own].erase(pending_[own].begin());
}

Operand Gathers::WholeParameters(int32_t unit) const {
  return sharding_ == Sharding::kFull ? gathered_[static_cast<size_t>(unit)] : builder_->unit_state(unit).whole;
}

}  // namespace reprise
