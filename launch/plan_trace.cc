#include "launch/plan_trace.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/schedule/instruction_times.h"
#include "runtime/schedule/simulation.h"
#include "runtime/train/step_profile.h"
#include "runtime/train/trace.h"

namespace reprise {

absl::StatusOr<std::string> SimulatedTrace(const JobPlan& job) {
  REPRISE_CHECK(job.options.times != nullptr) << "the plan was made without times";
  ASSIGN_OR_RETURN(const InstructionTimes times, TimesFromTable(job.schedule, TableOf(*job.options.times)));
  // Without jitter every rank does the same at the same time.
  ASSIGN_OR_RETURN(const Simulation simulation, Simulate(job.schedule, times, {.ranks = 1}));
  return TraceJson(job, simulation.timeline, {.program = "reprise " REPRISE_VERSION, .source = "simulated"});
}

}  // namespace reprise
