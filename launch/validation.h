// Checks a configuration: each value by itself, and what must go together.
#ifndef REPRISE_LAUNCH_VALIDATION_H_
#define REPRISE_LAUNCH_VALIDATION_H_

#include "absl/status/status.h"
#include "launch/configuration.h"

namespace reprise {

// Fills in the derived members and sorts `offload`. InvalidArgument for the first thing that is wrong, in one sentence
// that names the flag and what it takes.
absl::Status Validate(Subcommand subcommand, TrainConfiguration* configuration);

// InvalidArgument, naming the flag, for what the interface has and this program does not do yet. Of a configuration
// that Validate passed.
// The flags of `plan`, and what they must go together with.
absl::Status ValidatePlan(const TrainConfiguration& configuration, const PlanRequest& request);

absl::Status RefuseNotBuilt(const TrainConfiguration& configuration);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_VALIDATION_H_
