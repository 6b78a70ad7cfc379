#include "runtime/schedule/memory_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr std::byte kWritten{0x11};
constexpr std::byte kPoison{0xFF};

Item MakeItem(int64_t bytes, int64_t offset, int64_t first, int64_t last) {
  Item item;
  item.bytes = bytes;
  item.offset = offset;
  item.first = first;
  item.last = last;
  return item;
}

Instruction Touching(std::vector<Access> accesses) {
  Instruction instruction;
  instruction.accesses = std::move(accesses);
  return instruction;
}

TEST(MemoryGuard, PoisonsWhatNobodyTouchesAnyMore) {
  Schedule schedule;
  schedule.device_bytes = 512;
  schedule.items = {MakeItem(200, 0, 0, 1), MakeItem(256, 256, 0, 2)};
  schedule.instructions = {Touching({{0, true}, {1, true}}), Touching({{0, false}}), Touching({{1, false}})};
  std::array<std::byte, 512> arena{};
  MemoryGuard guard(schedule, arena.data());
  guard.BeginStep();
  guard.Begin(schedule.instructions[0]);
  std::fill_n(arena.begin(), 200, kWritten);
  std::fill_n(arena.begin() + 256, 256, kWritten);
  guard.End(schedule.instructions[0]);
  guard.Begin(schedule.instructions[1]);
  EXPECT_EQ(arena[199], kWritten);
  guard.End(schedule.instructions[1]);
  guard.EndStep();
  EXPECT_EQ(std::count(arena.begin(), arena.begin() + 200, kPoison), 200);
  EXPECT_EQ(std::count(arena.begin() + 256, arena.end(), kWritten), 256);
}

// Inside one instruction, a later call's output took over part of the memory of an earlier call's.
TEST(MemoryGuard, LeavesWhatChangedHandsInsideAnInstruction) {
  Schedule schedule;
  schedule.device_bytes = 768;
  schedule.items = {MakeItem(768, 0, 0, 1), MakeItem(256, 256, 2, 4)};
  schedule.instructions = {Touching({{0, true}, {1, true}}), Touching({{1, false}})};
  std::array<std::byte, 768> arena{};
  MemoryGuard guard(schedule, arena.data());
  guard.BeginStep();
  guard.Begin(schedule.instructions[0]);
  std::fill(arena.begin(), arena.end(), kWritten);
  guard.End(schedule.instructions[0]);
  guard.Begin(schedule.instructions[1]);
  EXPECT_EQ(std::count(arena.begin() + 256, arena.begin() + 512, kWritten), 256);
  guard.EndStep();
  EXPECT_EQ(std::count(arena.begin(), arena.begin() + 256, kPoison), 256);
  EXPECT_EQ(std::count(arena.begin() + 512, arena.end(), kPoison), 256);
  guard.End(schedule.instructions[1]);
  guard.EndStep();
  EXPECT_EQ(std::count(arena.begin(), arena.end(), kPoison), 768);
}

}  // namespace
}  // namespace reprise
