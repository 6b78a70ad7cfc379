// `reprise plan`: prints the plan, the predicted peak and step time of a run, and the proof, without running it.
#ifndef REPRISE_LAUNCH_PLAN_H_
#define REPRISE_LAUNCH_PLAN_H_

#include "launch/configuration.h"

namespace reprise {

// Returns the exit code (launch/exit_code.h); kExitNoPlan where nothing fits the budget.
int PlanMain(const TrainConfiguration& configuration, const PlanRequest& request);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PLAN_H_
