// The time of a schedule without running it: every rank's streams on a virtual clock (device/virtual_streams.h), and
// collectives that start when the last rank has come to them (collectives/virtual_collective.h).
//
//   ASSIGN_OR_RETURN(InstructionTimes times, TimesFromTable(schedule, table));
//   ASSIGN_OR_RETURN(Simulation s, Simulate(schedule, times, {.ranks = 1024, .jitter = 0.05}));
//   s.makespan_ns;
//
// Each stream runs its instructions in list order; each starts when its waits are done and its stream is free. Times
// are whole nanoseconds, so a simulation gives the same numbers everywhere. It takes a few bytes an instruction and
// rank, and of the order of 10 ns. For any thread.
#ifndef REPRISE_RUNTIME_SCHEDULE_SIMULATION_H_
#define REPRISE_RUNTIME_SCHEDULE_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/schedule/instruction_times.h"
#include "runtime/schedule/schedule.h"
#include "runtime/schedule/timeline.h"

namespace reprise {

struct SimulationOptions {
  int ranks = 1;  // all run the same schedule
  // Every duration of a rank is multiplied by 1 + jitter x u, with u in [0, 1) drawn from (seed, rank, instruction): a
  // rank's own durations are the same whatever the number of ranks. A collective takes as long as the slowest of all.
  double jitter = 0;
  uint64_t seed = 0;
  // Ranks [slow_host x ranks_per_host, (slow_host + 1) x ranks_per_host) take slow_factor as long. -1: no host.
  int ranks_per_host = 1;
  int slow_host = -1;
  double slow_factor = 1;
};

struct Simulation {
  int64_t makespan_ns = 0;       // of the slowest rank
  std::vector<int64_t> rank_ns;  // end of each rank's last instruction
  Timeline timeline;             // of rank 0; a collective starts when it starts for all
  TimeByCause causes;            // of rank 0; sums to rank_ns[0]
};

// InvalidArgument for times that do not belong to the schedule, are negative or sum to more than 2^53 ns (104 days),
// for options that make no sense, and for waits on what stands behind.
absl::StatusOr<Simulation> Simulate(const Schedule& schedule, const InstructionTimes& times,
                                    const SimulationOptions& options);

// The same schedule with the gates of docs/plan_profile.md as waits of their own: a transfer starts when the compute
// instruction before it in the list has ended, and a block waits for the offloads and reductions that were issued two
// blocks before it. Its simulated time is that of the plan by the rules of that page, unless a transfer is placed where
// an offload or reduction still reads: it then waits for that, too. The schedule itself, which waits only where memory
// or data make it, is never slower than with the gates.
Schedule WithPlanGates(const Schedule& schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_SIMULATION_H_
