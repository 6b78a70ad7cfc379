#include "runtime/schedule/gradients.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr int64_t kFloatBytes = 4;

}  // namespace

Gradients::Gradients(const Program& program, const UnitLayout& units, Sharding sharding, int micro_batches,
                     ScheduleBuilder* builder)
    : program_(program),
      units_(units),
      sharding_(sharding),
      micro_batches_(micro_batches),
      builder_(builder),
      whole_(units.units.size()),
      shard_(units.units.size()) {}

// The root unit gets gradients twice a micro-batch, from the head, then from the embedding. In the last micro-batch the
// embedding's stand apart, because the head's are then already summed in that buffer.
bool Gradients::UsesStepBuffer(int32_t unit) const {
  if (ReducesEachMicroBatch(sharding_)) return false;
  const bool is_summed = units_.ranks > 1 && shard_[static_cast<size_t>(unit)].item >= 0;
  return !is_summed;
}

absl::Status Gradients::Begin(const ComputeStep& step) {
  const int32_t unit = UnitOf(step);
  if (unit < 0) return absl::OkStatus();
  const Unit& u = units_.units[static_cast<size_t>(unit)];
  Operand& buffer = whole_[static_cast<size_t>(unit)];
  const bool step_buffer = UsesStepBuffer(unit);
  adds_ = step_buffer && buffer.item >= 0;
  if (adds_) {
    current_ = buffer;
    return absl::OkStatus();
  }
  current_ = {builder_->AddItem(u.name + " gradients", u.whole_elements * kFloatBytes, ItemKind::kGradient), 0, 0};
  if (step_buffer) buffer = current_;
  return ZeroUnwritten(step, u);
}

absl::Status Gradients::ZeroUnwritten(const ComputeStep& step, const Unit& unit) {
  const ProgramGraph& graph = GraphOf(step);
  const ProgramBlock& block = program_.blocks[static_cast<size_t>(step.block)];
  std::vector<UnitRange> written;
  for (const UnitParameter& p : unit.parameters) {
    const auto found = std::find(block.parameters.begin(), block.parameters.end(), p.parameter);
    const auto k = static_cast<size_t>(found - block.parameters.begin());
    const bool has_gradient = found != block.parameters.end() && k < graph.block.parameter_gradients.size() &&
                              graph.block.parameter_gradients[k] != kNoValue;
    if (has_gradient) written.push_back({&p, p.offset, p.end()});
  }
  for (const UnitRange& gap : GapsOf(unit, written)) {
    Call call;
    Operand place = current_;
    place.offset += gap.begin * kFloatBytes;
    call.outputs.push_back(place);
    RETURN_IF_ERROR(
        builder_->AddCall({"fill_zero", {}, {{DType::kFloat32, {gap.end - gap.begin}}}, {}}, std::move(call)));
  }
  return absl::OkStatus();
}

Operand Gradients::Place(const ComputeStep& step, ValueId value, bool* accumulate) const {
  const ProgramGraph& graph = GraphOf(step);
  for (size_t k = 0; k < graph.block.parameter_gradients.size(); ++k) {
    if (graph.block.parameter_gradients[k] != value) continue;
    const Parameter* parameter = program_.blocks[static_cast<size_t>(step.block)].parameters[k];
    Operand operand = current_;
    operand.offset += units_.Find(static_cast<size_t>(step.block), parameter).parameter->offset * kFloatBytes;
    *accumulate = adds_;
    return operand;
  }
  return {};
}

void Gradients::EmitReduce(const ComputeStep& step) {
  const bool each = ReducesEachMicroBatch(sharding_);
  const int32_t unit = UnitOf(step);
  if (unit < 0) return;
  const Unit& u = units_.units[static_cast<size_t>(unit)];
  Operand& shard = shard_[static_cast<size_t>(unit)];
  if (!each && units_.ranks == 1) shard = current_;
  if (!each && (!LastMicroBatch(step) || units_.ranks == 1)) return;
  const bool accumulate = shard.item >= 0;
  if (!accumulate) {
    const int64_t shard_bytes = u.shard_elements * kFloatBytes;
    shard = each ? Operand{builder_->AddItem(u.name + " gradient shard", shard_bytes, ItemKind::kGradient), 0, 0}
                 : Operand{current_.item, 0, shard_bytes};
  }
  Instruction& reduce = builder_->Begin(InstructionKind::kReduce, Stream::kReduce);
  reduce.unit = unit;
  reduce.micro_batch = step.micro_batch;
  reduce.from = current_;
  reduce.to = shard;
  reduce.count = u.shard_elements;
  reduce.accumulate = accumulate;
  builder_->Touch(reduce.from, false);
  builder_->Touch(reduce.to, true);
  builder_->End();
  builder_->HoldForLag(current_.item);
}

}  // namespace reprise
