// The times of the machine that a plan is for: this one, measured (or known from the cache), or one that is described.
//
//   ASSIGN_OR_RETURN(setup.options.times, TimesForPlan(configuration, request, setup, ranks, machine, kernels));
#ifndef REPRISE_LAUNCH_MACHINE_CHOICE_H_
#define REPRISE_LAUNCH_MACHINE_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launch/configuration.h"
#include "launch/job_setup.h"
#include "runtime/plan/hardware.h"
#include "runtime/plan/machine_times.h"
#include "runtime/tensor/kernel_set.h"
#include "runtime/train/training_job.h"

namespace reprise {

// The folder of --profile_cache: empty for none; auto: $XDG_CACHE_HOME/reprise, else ~/.cache/reprise, else none.
std::string CacheFolder(const std::string& flag);

// Of a machine that is described: for every kernel that any plan of the job calls.
absl::StatusOr<MachineTimes> EstimateForAnyPlan(const Hardware& hardware, const JobSetup& setup, int ranks,
                                                KernelSet& kernels);

// For `plan`, which is one process whatever the ranks it plans for. Without --hardware kernels and copies are measured
// here, and collectives of several ranks are taken to run at the rate of a copy. `kernels` must be made for `machine`.
absl::StatusOr<std::shared_ptr<const MachineTimes>> TimesForPlan(const TrainConfiguration& configuration,
                                                                 const PlanRequest& request, const JobSetup& setup,
                                                                 int ranks, const MachineOptions& machine,
                                                                 KernelSet& kernels);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_MACHINE_CHOICE_H_
