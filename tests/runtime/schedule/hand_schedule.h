// Schedules written by hand, one instruction a tick, for what no compiler would make.
//
//   HandSchedule hand;
//   const int32_t a = hand.AddItem("a", 0, 256);
//   hand.Add(InstructionKind::kForward, Stream::kCompute, {{a, true}});
//   EXPECT_TRUE(Check(hand.schedule).ok());
#ifndef REPRISE_TESTS_RUNTIME_SCHEDULE_HAND_SCHEDULE_H_
#define REPRISE_TESTS_RUNTIME_SCHEDULE_HAND_SCHEDULE_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/schedule/schedule.h"

namespace reprise::testing {

struct HandSchedule {
  Schedule schedule;

  int32_t AddItem(std::string name, int64_t offset, int64_t bytes, ItemKind kind = ItemKind::kTransient,
                  Memory memory = Memory::kDevice) {
    schedule.items.push_back({.name = std::move(name), .bytes = bytes, .kind = kind, .memory = memory});
    schedule.items.back().offset = offset;
    int64_t& limit = memory == Memory::kDevice ? schedule.device_bytes : schedule.host_bytes;
    limit = std::max(limit, offset + bytes);
    return static_cast<int32_t>(schedule.items.size() - 1);
  }

  // Lifetimes grow with the uses.
  int32_t Add(InstructionKind kind, Stream stream, std::vector<Access> accesses, std::vector<int32_t> waits = {}) {
    Instruction i;
    i.kind = kind;
    i.stream = stream;
    i.first_tick = i.last_tick = static_cast<int64_t>(schedule.instructions.size());
    for (const Access& access : accesses) {
      Item& item = schedule.items[static_cast<size_t>(access.item)];
      if (item.first < 0) item.first = i.first_tick;
      item.last = i.first_tick;
    }
    i.accesses = std::move(accesses);
    i.waits = std::move(waits);
    schedule.instructions.push_back(std::move(i));
    return static_cast<int32_t>(schedule.instructions.size() - 1);
  }

  int32_t Compute(std::vector<Access> accesses, std::vector<int32_t> waits = {}) {
    return Add(InstructionKind::kForward, Stream::kCompute, std::move(accesses), std::move(waits));
  }
  int32_t Gather(int32_t unit, std::vector<Access> accesses, std::vector<int32_t> waits = {}) {
    const int32_t i = Add(InstructionKind::kGather, Stream::kGather, std::move(accesses), std::move(waits));
    schedule.instructions.back().unit = unit;
    return i;
  }
  int32_t Reduce(int32_t unit, std::vector<Access> accesses, std::vector<int32_t> waits = {}) {
    const int32_t i = Add(InstructionKind::kReduce, Stream::kReduce, std::move(accesses), std::move(waits));
    schedule.instructions.back().unit = unit;
    return i;
  }
  int32_t Copy(InstructionKind kind, int32_t from, int32_t to, std::vector<int32_t> waits = {}) {
    const bool offload = kind == InstructionKind::kOffload;
    const int32_t i =
        Add(kind, offload ? Stream::kOffload : Stream::kReload, {{from, false}, {to, true}}, std::move(waits));
    schedule.instructions.back().from.item = from;
    schedule.instructions.back().to.item = to;
    return i;
  }
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_RUNTIME_SCHEDULE_HAND_SCHEDULE_H_
