#include "runtime/schedule/memory_guard.h"

#include <algorithm>

#include "base/bytes.h"
#include "device/poison.h"
#include "runtime/plan/layout.h"

namespace reprise {

MemoryGuard::MemoryGuard(const Schedule& schedule, std::byte* arena)
    : schedule_(schedule), arena_(arena), uses_(schedule.items.size(), 0), running_(schedule.items.size(), 0) {
  for (const Instruction& instruction : schedule.instructions) {
    for (const Access& access : instruction.accesses) ++uses_[static_cast<size_t>(access.item)];
  }
  left_ = uses_;
}

MemoryGuard::~MemoryGuard() { EndStep(); }

void MemoryGuard::BeginStep() {
  left_ = uses_;
  for (const Item& item : schedule_.items) {
    if (item.memory == Memory::kDevice && !item.persistent()) PoisonBytes(arena_ + item.offset, item.bytes);
  }
  ForbidBytes(arena_, schedule_.device_bytes);  // holes between items, too
}

void MemoryGuard::Begin(const Instruction& instruction) {
  for (const Access& access : instruction.accesses) {
    const Item& item = schedule_.items[static_cast<size_t>(access.item)];
    ++running_[static_cast<size_t>(access.item)];
    if (item.memory != Memory::kDevice) continue;
    UnpoisonBytes(arena_ + item.offset, item.bytes);
  }
}

void MemoryGuard::End(const Instruction& instruction) {
  for (const Access& access : instruction.accesses) {
    --running_[static_cast<size_t>(access.item)];
    --left_[static_cast<size_t>(access.item)];
  }
  for (const Access& access : instruction.accesses) {
    if (!InUse(access.item)) PoisonWhatIsFree(access.item, instruction);
  }
  for (const Access& access : instruction.accesses) {
    const auto index = static_cast<size_t>(access.item);
    if (schedule_.items[index].memory == Memory::kDevice && running_[index] == 0) Forbid(access.item);
  }
}

bool MemoryGuard::InUse(int32_t item) const {
  const Item& i = schedule_.items[static_cast<size_t>(item)];
  return i.persistent() || i.kind == ItemKind::kGradient || left_[static_cast<size_t>(item)] > 0;
}

void MemoryGuard::PoisonWhatIsFree(int32_t item, const Instruction& instruction) {
  const Item& ended = schedule_.items[static_cast<size_t>(item)];
  if (ended.memory != Memory::kDevice) return;
  const int64_t end = ended.offset + ended.bytes;
  int64_t position = ended.offset;
  while (position < end) {
    int64_t taken_from = end;
    int64_t taken_to = end;
    for (const Access& access : instruction.accesses) {
      const Item& other = schedule_.items[static_cast<size_t>(access.item)];
      if (other.memory != Memory::kDevice || !InUse(access.item)) continue;
      if (other.offset + other.bytes <= position || other.offset >= taken_from) continue;
      taken_from = std::max(other.offset, position);
      taken_to = other.offset + other.bytes;
    }
    PoisonBytes(arena_ + position, taken_from - position);
    position = taken_to;
  }
}

void MemoryGuard::EndStep() { UnpoisonBytes(arena_, schedule_.device_bytes); }

void MemoryGuard::Forbid(int32_t item) {
  const Item& i = schedule_.items[static_cast<size_t>(item)];
  ForbidBytes(arena_ + i.offset, RoundUp(i.bytes, kItemAlignment));
}

}  // namespace reprise
