// `reprise plan`: prints the plan and the predicted peak of a run, without running it.
#ifndef REPRISE_LAUNCH_PLAN_H_
#define REPRISE_LAUNCH_PLAN_H_

#include "launch/configuration.h"

namespace reprise {

// Returns the exit code (launch/exit_code.h); kExitNoPlan where nothing fits the budget.
int PlanMain(const TrainConfiguration& configuration);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PLAN_H_
