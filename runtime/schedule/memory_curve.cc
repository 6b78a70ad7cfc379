#include "runtime/schedule/memory_curve.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/bytes.h"
#include "runtime/plan/layout.h"

namespace reprise {
namespace {

// When each tick begins. Rising, so that nothing that lives for one tick only is lost between equal times.
std::vector<int64_t> TickTimes(const Schedule& schedule, const Timeline& timeline) {
  std::vector<int64_t> times;
  int64_t compute_end_ns = 0;
  const auto add = [&](int64_t ns) { times.push_back(times.empty() ? ns : std::max(ns, times.back() + 1)); };
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    const int64_t ticks = instruction.last_tick - instruction.first_tick + 1;
    if (instruction.stream != Stream::kCompute) {
      for (int64_t k = 0; k < ticks; ++k) add(compute_end_ns);
      continue;
    }
    const int64_t start_ns = timeline.start_ns[i];
    compute_end_ns = timeline.end_ns[i];
    const double each = static_cast<double>(compute_end_ns - start_ns) / static_cast<double>(ticks);
    for (int64_t k = 0; k < ticks; ++k) add(start_ns + static_cast<int64_t>(each * static_cast<double>(k)));
  }
  return times;
}

// What begins and ends at each tick.
struct Changes {
  std::vector<int32_t> begin, end;
};

}  // namespace

int64_t MemoryPoint::live_bytes() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

std::vector<MemoryPoint> MemoryCurve(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<int64_t> times = TickTimes(schedule, timeline);
  const auto ticks = static_cast<int64_t>(times.size());
  std::vector<Changes> changes(times.size() + 1);
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    const Item& item = schedule.items[i];
    if (item.memory != Memory::kDevice || item.first < 0 || item.first >= ticks) continue;
    changes[static_cast<size_t>(item.first)].begin.push_back(static_cast<int32_t>(i));
    changes[static_cast<size_t>(std::min(item.last + 1, ticks))].end.push_back(static_cast<int32_t>(i));
  }
  std::vector<MemoryPoint> curve;
  MemoryPoint now;
  std::multiset<int64_t> ends;  // addresses
  const auto add = [&](int32_t index, int sign) {
    const Item& item = schedule.items[static_cast<size_t>(index)];
    const int64_t bytes = RoundUp(item.bytes, kItemAlignment);
    now.bytes[static_cast<size_t>(item.kind)] += sign * bytes;
    if (sign > 0) {
      ends.insert(item.offset + bytes);
    } else {
      ends.erase(ends.find(item.offset + bytes));
    }
  };
  for (size_t tick = 0; tick < times.size(); ++tick) {
    for (const int32_t item : changes[tick].end) add(item, -1);
    for (const int32_t item : changes[tick].begin) add(item, 1);
    now.ns = times[tick];
    now.highest_byte = ends.empty() ? 0 : *ends.rbegin();
    const bool same =
        !curve.empty() && curve.back().bytes == now.bytes && curve.back().highest_byte == now.highest_byte;
    if (!same) curve.push_back(now);
  }
  if (!curve.empty() && timeline.StepNanoseconds() > curve.back().ns) {
    now.ns = timeline.StepNanoseconds();
    curve.push_back(now);
  }
  return curve;
}

}  // namespace reprise
