// MemoryGuard: makes a use of memory before or after its time show, in runs with one thread.
//
// When the last instruction that touches an item is done, its bytes are overwritten with a pattern that is no number.
// Under AddressSanitizer every byte of the arena is off limits but those of the items that the running instructions
// name.
#ifndef REPRISE_RUNTIME_SCHEDULE_MEMORY_GUARD_H_
#define REPRISE_RUNTIME_SCHEDULE_MEMORY_GUARD_H_

#include <cstddef>
#include <vector>

#include "runtime/schedule/schedule.h"

namespace reprise {

// Not thread-safe: instructions begin and end on the thread that runs every stream.
class MemoryGuard {
 public:
  MemoryGuard(const Schedule& schedule, std::byte* arena);
  ~MemoryGuard();
  MemoryGuard(const MemoryGuard&) = delete;
  MemoryGuard& operator=(const MemoryGuard&) = delete;

  void BeginStep();  // before the first instruction
  void Begin(const Instruction& instruction);
  void End(const Instruction& instruction);
  void EndStep();  // the whole arena may be touched again

 private:
  // An instruction still to come, or a reader after the step, touches it.
  bool InUse(int32_t item) const;
  // Memory changes hands from call to call of one instruction: bytes of `item` that another item of `instruction` took
  // over and still holds are left alone.
  void PoisonWhatIsFree(int32_t item, const Instruction& instruction);
  void Forbid(int32_t item);

  const Schedule& schedule_;
  std::byte* arena_;
  std::vector<int> uses_;     // by item: instructions that touch it
  std::vector<int> left_;     // of those, not yet done in this step
  std::vector<int> running_;  // by item: instructions that run now
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_MEMORY_GUARD_H_
