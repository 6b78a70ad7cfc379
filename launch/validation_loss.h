// Mean loss over validation windows: the same value for any number of ranks.
#ifndef REPRISE_LAUNCH_VALIDATION_LOSS_H_
#define REPRISE_LAUNCH_VALIDATION_LOSS_H_

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "launch/progress.h"
#include "runtime/train/batches.h"
#include "runtime/train/training_job.h"

namespace reprise {

// Collective. Batch k goes to rank k mod ranks; the sums of batches are added in batch order.
absl::StatusOr<double> ValidationLoss(const ValidationBatches& batches, TrainingJob& job, Communicator& communicator,
                                      Progress* progress);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_VALIDATION_LOSS_H_
