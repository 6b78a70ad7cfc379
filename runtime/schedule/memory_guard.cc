#include "runtime/schedule/memory_guard.h"

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
  for (size_t i = 0; i < schedule_.items.size(); ++i) {
    const Item& item = schedule_.items[i];
    if (item.memory == Memory::kDevice && !item.persistent()) PoisonBytes(arena_ + item.offset, item.bytes);
    if (item.memory == Memory::kDevice) Forbid(static_cast<int32_t>(i));
  }
}

void MemoryGuard::Begin(const Instruction& instruction) {
  for (const Access& access : instruction.accesses) {
    const Item& item = schedule_.items[static_cast<size_t>(access.item)];
    if (item.memory != Memory::kDevice) continue;
    ++running_[static_cast<size_t>(access.item)];
    UnpoisonBytes(arena_ + item.offset, item.bytes);
  }
}

void MemoryGuard::End(const Instruction& instruction) {
  for (const Access& access : instruction.accesses) {
    const auto index = static_cast<size_t>(access.item);
    const Item& item = schedule_.items[index];
    if (item.memory != Memory::kDevice) continue;
    --running_[index];
    --left_[index];
    if (left_[index] == 0 && !item.persistent() && item.kind != ItemKind::kGradient) {
      PoisonBytes(arena_ + item.offset, item.bytes);
    }
    if (running_[index] == 0) Forbid(access.item);
  }
}

void MemoryGuard::EndStep() { UnpoisonBytes(arena_, schedule_.device_bytes); }

void MemoryGuard::Forbid(int32_t item) {
  const Item& i = schedule_.items[static_cast<size_t>(item)];
  ForbidBytes(arena_ + i.offset, RoundUp(i.bytes, kItemAlignment));
}

}  // namespace reprise
