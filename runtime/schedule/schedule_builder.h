// ScheduleBuilder: the schedule that a compiler is writing. Items, instructions, ticks and lifetimes; addresses and
// waits last.
//
//   ScheduleBuilder builder(scratch_bytes);
//   const Operand whole{builder.AddItem("h.0 gathered", bytes, ItemKind::kGathered), 0, 0};
//   Instruction& gather = builder.Begin(InstructionKind::kGather, Stream::kGather);
//   builder.Touch(whole, /*write=*/true);     // of the instruction at hand
//   builder.End();
//   Schedule schedule = std::move(builder).Finish();
#ifndef REPRISE_RUNTIME_SCHEDULE_SCHEDULE_BUILDER_H_
#define REPRISE_RUNTIME_SCHEDULE_SCHEDULE_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/plan/layout.h"
#include "runtime/schedule/compiler.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const ScratchBytes& scratch_bytes) : scratch_bytes_(scratch_bytes) {}

  Schedule& schedule() { return schedule_; }
  const Schedule& schedule() const { return schedule_; }
  Item& item(int32_t index) { return schedule_.items[static_cast<size_t>(index)]; }
  const UnitState& unit_state(int32_t unit) const { return schedule_.unit_states[static_cast<size_t>(unit)]; }
  int64_t next_tick() const { return next_tick_; }

  int32_t AddItem(std::string name, int64_t bytes, ItemKind kind, Memory memory = Memory::kDevice);

  // Appends an instruction, which is the one at hand until the next Begin.
  Instruction& Begin(InstructionKind kind, Stream stream);
  // Every instruction but one with calls is one tick.
  void End();
  // ... and of a block's instruction: what is held for a lag may be given back now.
  void EndBlock();

  void Touch(const Operand& operand, bool write);

  // Keeps `item` alive until the end of the next block's instruction: an asynchronous copy or reduction still reads it.
  void HoldForLag(int32_t item);

  // Appends a call to the instruction at hand, and its scratch; one tick.
  absl::Status AddCall(KernelSpec spec, Call call);

  // Assigns addresses and waits.
  Schedule Finish() &&;

 private:
  absl::StatusOr<int32_t> KernelIndex(KernelSpec spec);
  void AssignMemory();
  Layout Place(Memory memory, int64_t base);

  const ScratchBytes& scratch_bytes_;
  Schedule schedule_;
  int64_t next_tick_ = 0;
  struct Touched {
    int32_t instruction = -1;  // the last one
    size_t access = 0;         // of it
  };
  std::vector<Touched> touched_;                // by item, of those that were
  std::vector<std::pair<int32_t, int>> holds_;  // item, block instructions left
  std::map<std::string, int32_t> kernel_index_;
  std::vector<int64_t> kernel_scratch_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_SCHEDULE_BUILDER_H_
