// One rank's training run: data, steps, validation, metrics, outputs. What `reprise train` does between MPI's start and
// its end.
#ifndef REPRISE_LAUNCH_TRAINING_RUN_H_
#define REPRISE_LAUNCH_TRAINING_RUN_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "launch/configuration.h"

namespace reprise {

// Errors that are not a peer's or a collective's are agreed on: every rank returns the same one.
absl::Status RunTraining(const TrainConfiguration& configuration, Communicator& communicator);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_TRAINING_RUN_H_
