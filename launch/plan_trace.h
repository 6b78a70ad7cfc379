// The trace of a plan that was not run: its schedule, simulated on the times of the machine that it is for.
//
//   ASSIGN_OR_RETURN(std::string json, SimulatedTrace(*job));   // of a job that was planned with options.times
#ifndef REPRISE_LAUNCH_PLAN_TRACE_H_
#define REPRISE_LAUNCH_PLAN_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/job_plan.h"

namespace reprise {

// Chrome's trace JSON (runtime/train/trace.h) of one rank of job.units.ranks, without jitter, on job.options.times.
absl::StatusOr<std::string> SimulatedTrace(const JobPlan& job);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PLAN_TRACE_H_
