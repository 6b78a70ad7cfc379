// Timeline: when each instruction of a schedule ran, measured (step.h) or simulated (simulation.h); and where the time
// of a step went.
//
//   TimeByCause time = CausesOf(schedule, step->timeline());
//   time[TimeCause::kGather];   // nanoseconds for which compute stood still until a gather was done
#ifndef REPRISE_RUNTIME_SCHEDULE_TIMELINE_H_
#define REPRISE_RUNTIME_SCHEDULE_TIMELINE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/schedule/schedule.h"

namespace reprise {

// Nanoseconds from the start of the step, by instruction.
struct Timeline {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;

  int64_t StepNanoseconds() const;  // the end of the last; 0 for an empty schedule
};

enum class TimeCause : uint8_t {
  kCompute,    // forward and backward of blocks
  kRecompute,  // forward again
  kGather,     // the compute stream waits for gathered parameters or gradients
  kReduce,     // ... for a sum of gradients
  kOffload,    // ... for memory that a copy to the host still reads
  kReload,     // ... for a boundary on its way back
  kOptimizer,  // norm, sum of scalars, update
  kOther,      // the compute stream stands still and no wait says why: time between instructions
};
inline constexpr int kTimeCauseCount = 8;
const char* TimeCauseName(TimeCause cause);  // "compute", "exposed gather", ...

struct TimeByCause {
  std::array<int64_t, kTimeCauseCount> ns{};

  int64_t operator[](TimeCause cause) const { return ns[static_cast<size_t>(cause)]; }
  int64_t total() const;
};

// Every nanosecond from 0 to timeline.StepNanoseconds(), under one cause each. Where the compute stream waits for
// several instructions, one after the other takes the part of the wait that it alone makes longer, as a stream meets
// its events. What other streams do behind the last compute instruction is exposed, too. The timeline is one that the
// schedule allows: compute instructions do not overlap, and each starts behind what it waits for.
TimeByCause CausesOf(const Schedule& schedule, const Timeline& timeline);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_TIMELINE_H_
