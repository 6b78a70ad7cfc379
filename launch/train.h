// `reprise train`: one rank of a training run.
#ifndef REPRISE_LAUNCH_TRAIN_H_
#define REPRISE_LAUNCH_TRAIN_H_

#include "launch/configuration.h"

namespace reprise {

// Trains as the validated `configuration` says, or tells all ranks why this one's flags are wrong, and returns the exit
// code of this rank (launch/exit_code.h). Starts and ends MPI; prints what went wrong once, on one rank, and writes the
// exit file.
int TrainMain(const absl::StatusOr<TrainConfiguration>& configuration);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_TRAIN_H_
