// The device memory that a schedule holds, over the time of a step.
//
//   for (const MemoryPoint& p : MemoryCurve(schedule, step->timeline())) Plot(p.ns, p.live_bytes());
//
// What is live is a property of the schedule and counted in its ticks, so the curve's maximum is the schedule's
// largest_live_sum and its highest address is device_bytes, in every run. The timeline only says when: the ticks of a
// compute instruction are spread evenly over its time, and those of other streams stand behind the compute instruction
// before them in the list.
#ifndef REPRISE_RUNTIME_SCHEDULE_MEMORY_CURVE_H_
#define REPRISE_RUNTIME_SCHEDULE_MEMORY_CURVE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/schedule/schedule.h"
#include "runtime/schedule/timeline.h"

namespace reprise {

inline constexpr int kItemKindCount = 7;

struct MemoryPoint {
  int64_t ns = 0;                               // holds until the next point
  std::array<int64_t, kItemKindCount> bytes{};  // live, by ItemKind, aligned as the arena aligns
  int64_t highest_byte = 0;                     // where the highest live item ends

  int64_t live_bytes() const;
};

// Rising in time, each different from the one before; the last stands at the end of the step. Empty for an empty
// schedule.
std::vector<MemoryPoint> MemoryCurve(const Schedule& schedule, const Timeline& timeline);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_MEMORY_CURVE_H_
