#include "runtime/schedule/ordering.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

#include "base/bytes.h"
#include "runtime/plan/layout.h"

namespace reprise {
namespace {

// By stream: the last instruction that is known to be over. -1: none.
using Clock = std::array<int32_t, kStreamCount>;

constexpr Clock kNothing = {-1, -1, -1, -1, -1};

size_t StreamIndex(const Instruction& instruction) { return static_cast<size_t>(instruction.stream); }

// First and last accesses of each item, for memory that changes hands.
struct Use {
  int32_t first = -1;     // instruction
  Clock last = kNothing;  // by stream
};

std::vector<Use> UsesOf(const Schedule& schedule) {
  std::vector<Use> uses(schedule.items.size());
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    for (const Access& access : instruction.accesses) {
      Use& use = uses[static_cast<size_t>(access.item)];
      if (use.first < 0) use.first = static_cast<int32_t>(i);
      use.last[StreamIndex(instruction)] = static_cast<int32_t>(i);
    }
  }
  return uses;
}

// Who had which bytes last. An item that takes some over waits for their last owner only: that one waited for its own
// predecessor, and an item's first use is before all others.
class Owners {
 public:
  // Makes the item the owner of [begin, end) and calls `taken` with each former owner, perhaps more than once.
  template <typename Taken>
  void Take(int64_t begin, int64_t end, int32_t item, const Taken& taken) {
    if (begin == end) return;
    SplitAt(begin);
    SplitAt(end);
    const auto first = owners_.lower_bound(begin);
    auto next = first;
    for (; next != owners_.end() && next->first < end; ++next) {
      if (next->second >= 0) taken(next->second);
    }
    owners_.erase(first, next);
    owners_[begin] = item;
  }

 private:
  void SplitAt(int64_t address) {
    const auto after = owners_.upper_bound(address);
    if (after != owners_.begin()) owners_.emplace_hint(after, address, std::prev(after)->second);
  }

  std::map<int64_t, int32_t> owners_ = {{0, -1}};  // from this address to the next; -1: nobody yet
};

// By instruction: what must be over before it because it takes over memory.
std::vector<std::vector<int32_t>> Handovers(const Schedule& schedule) {
  const std::vector<Use> uses = UsesOf(schedule);
  std::vector<std::vector<int32_t>> before(schedule.instructions.size());
  std::vector<int32_t> by_time;
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    if (!schedule.items[i].persistent() && uses[i].first >= 0) by_time.push_back(static_cast<int32_t>(i));
  }
  std::sort(by_time.begin(), by_time.end(), [&](int32_t a, int32_t b) {
    return schedule.items[static_cast<size_t>(a)].first < schedule.items[static_cast<size_t>(b)].first;
  });
  std::array<Owners, 2> owners;  // by Memory
  for (const int32_t index : by_time) {
    const Item& item = schedule.items[static_cast<size_t>(index)];
    const int64_t end = item.offset + RoundUp(item.bytes, kItemAlignment);
    owners[static_cast<size_t>(item.memory)].Take(item.offset, end, index, [&](int32_t former) {
      for (const int32_t last : uses[static_cast<size_t>(former)].last) {
        if (last >= 0) before[static_cast<size_t>(uses[static_cast<size_t>(index)].first)].push_back(last);
      }
    });
  }
  return before;
}

// What each item's content waits for: its last writer, and readers since.
struct ItemState {
  int32_t writer = -1;
  Clock readers = kNothing;
};

void AddDataOrder(const Instruction& instruction, int32_t index, std::vector<ItemState>* states,
                  std::vector<int32_t>* before) {
  for (const Access& access : instruction.accesses) {
    ItemState& state = (*states)[static_cast<size_t>(access.item)];
    if (state.writer >= 0) before->push_back(state.writer);
    if (!access.write) {
      state.readers[StreamIndex(instruction)] = index;
      continue;
    }
    for (const int32_t reader : state.readers) {
      if (reader >= 0) before->push_back(reader);
    }
    state.writer = index;
    state.readers = kNothing;
  }
}

}  // namespace

void AssignWaits(Schedule* schedule) {
  std::vector<std::vector<int32_t>> before = Handovers(*schedule);
  std::vector<ItemState> states(schedule->items.size());
  std::vector<Clock> clocks(schedule->instructions.size(), kNothing);
  Clock last_of_stream = kNothing;
  for (size_t i = 0; i < schedule->instructions.size(); ++i) {
    Instruction& instruction = schedule->instructions[i];
    const auto index = static_cast<int32_t>(i);
    const size_t stream = StreamIndex(instruction);
    AddDataOrder(instruction, index, &states, &before[i]);
    Clock& clock = clocks[i];
    if (last_of_stream[stream] >= 0) clock = clocks[static_cast<size_t>(last_of_stream[stream])];
    // Later ones first: one of them may imply an earlier one, never the other way round.
    std::sort(before[i].begin(), before[i].end(), std::greater<>());
    instruction.waits.clear();
    for (const int32_t other : before[i]) {
      const size_t other_stream = StreamIndex(schedule->instructions[static_cast<size_t>(other)]);
      if (other_stream == stream || clock[other_stream] >= other) continue;
      instruction.waits.push_back(other);
      const Clock& theirs = clocks[static_cast<size_t>(other)];
      for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], theirs[s]);
    }
    clock[stream] = index;
    last_of_stream[stream] = index;
  }
}

}  // namespace reprise
