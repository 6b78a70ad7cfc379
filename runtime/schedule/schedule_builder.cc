#include "runtime/schedule/schedule_builder.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/status_macros.h"
#include "runtime/schedule/ordering.h"

namespace reprise {
namespace {

// Block instructions after which memory that an asynchronous copy or reduction still reads may be taken again.
constexpr int kLagBlocks = 1;

}  // namespace

int32_t ScheduleBuilder::AddItem(std::string name, int64_t bytes, ItemKind kind, Memory memory) {
  schedule_.items.push_back({.name = std::move(name), .bytes = bytes, .kind = kind, .memory = memory});
  return static_cast<int32_t>(schedule_.items.size() - 1);
}

Instruction& ScheduleBuilder::Begin(InstructionKind kind, Stream stream) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = stream;
  instruction.first_tick = next_tick_;
  schedule_.instructions.push_back(std::move(instruction));
  return schedule_.instructions.back();
}

void ScheduleBuilder::End() {
  Instruction& instruction = schedule_.instructions.back();
  if (instruction.calls.empty()) ++next_tick_;
  instruction.last_tick = next_tick_ - 1;
}

void ScheduleBuilder::EndBlock() {
  End();
  for (auto& [item, blocks_left] : holds_) {
    --blocks_left;
    Item& held = this->item(item);
    held.last = std::max(held.last, next_tick_ - 1);
  }
  holds_.erase(std::remove_if(holds_.begin(), holds_.end(), [](const auto& hold) { return hold.second <= 0; }),
               holds_.end());
}

void ScheduleBuilder::Touch(const Operand& operand, bool write) {
  if (operand.item < 0) return;
  Item& item = this->item(operand.item);
  if (item.first < 0) item.first = next_tick_;
  item.last = next_tick_;
  const auto instruction = static_cast<int32_t>(schedule_.instructions.size()) - 1;
  std::vector<Access>& accesses = schedule_.instructions.back().accesses;
  touched_.resize(schedule_.items.size());
  Touched& touched = touched_[static_cast<size_t>(operand.item)];
  if (touched.instruction != instruction) {
    touched = {instruction, accesses.size()};
    accesses.push_back({operand.item, write});
  } else {
    Access& access = accesses[touched.access];
    access.write = access.write || write;
  }
}

void ScheduleBuilder::HoldForLag(int32_t item) { holds_.emplace_back(item, kLagBlocks); }

absl::StatusOr<int32_t> ScheduleBuilder::KernelIndex(KernelSpec spec) {
  const auto [it, is_new] = kernel_index_.emplace(spec.ToString(), static_cast<int32_t>(schedule_.kernels.size()));
  if (is_new) {
    ASSIGN_OR_RETURN(const int64_t bytes, scratch_bytes_(spec));
    kernel_scratch_.push_back(bytes);
    schedule_.kernels.push_back(std::move(spec));
  }
  return it->second;
}

absl::Status ScheduleBuilder::AddCall(KernelSpec spec, Call call) {
  ASSIGN_OR_RETURN(call.kernel, KernelIndex(std::move(spec)));
  if (const int64_t bytes = kernel_scratch_[static_cast<size_t>(call.kernel)]; bytes > 0) {
    call.scratch.item = AddItem("scratch of " + schedule_.kernels[static_cast<size_t>(call.kernel)].operation, bytes,
                                ItemKind::kScratch);
    Touch(call.scratch, true);
  }
  for (const Operand& input : call.inputs) Touch(input, false);
  for (const Operand& output : call.outputs) Touch(output, true);
  schedule_.instructions.back().calls.push_back(std::move(call));
  ++next_tick_;
  return absl::OkStatus();
}

Schedule ScheduleBuilder::Finish() && {
  AssignMemory();
  AssignWaits(&schedule_);
  return std::move(schedule_);
}

void ScheduleBuilder::AssignMemory() {
  int64_t persistent = 0;
  for (Item& item : schedule_.items) {
    if (!item.persistent()) continue;
    item.first = 0;
    item.last = next_tick_;
    item.offset = persistent;
    persistent += RoundUp(item.bytes, kItemAlignment);
  }
  const Layout device = Place(Memory::kDevice, persistent);
  schedule_.device_bytes = persistent + device.bytes;
  schedule_.largest_live_sum = persistent + device.largest_live_sum;
  schedule_.peak_tick = device.peak_tick;
  schedule_.host_bytes = Place(Memory::kHost, 0).bytes;
}

Layout ScheduleBuilder::Place(Memory memory, int64_t base) {
  std::vector<LayoutItem> items;
  std::vector<size_t> indices;
  for (size_t i = 0; i < schedule_.items.size(); ++i) {
    const Item& item = schedule_.items[i];
    if (item.memory != memory || item.persistent() || item.first < 0) continue;
    items.push_back({item.bytes, item.first, item.last});
    indices.push_back(i);
  }
  Layout layout = AssignAddresses(items);
  for (size_t k = 0; k < indices.size(); ++k) schedule_.items[indices[k]].offset = base + layout.offsets[k];
  return layout;
}

}  // namespace reprise
