// --export: the trained model as a Hugging Face folder, or its low-rank adapters alone in PEFT's layout.
//
//   RETURN_IF_ERROR(Agree(communicator, CheckExport(storage, configuration, setup)));  // before the first step, rank 0
//   RETURN_IF_ERROR(Export(storage, configuration, setup, communicator, job));         // at the end, all ranks
#ifndef REPRISE_LAUNCH_EXPORT_H_
#define REPRISE_LAUNCH_EXPORT_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "launch/configuration.h"
#include "launch/job_setup.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/training_job.h"

namespace reprise {

// InvalidArgument where the folder can't be written or holds a checkpoint already.
absl::Status CheckExport(Storage& storage, const TrainConfiguration& configuration, const JobSetup& setup);

// Collective; rank 0 writes. Each rank takes memory for one piece of a tensor. Every rank gets the same answer.
absl::Status Export(Storage& storage, const TrainConfiguration& configuration, const JobSetup& setup,
                    Communicator& communicator, TrainingJob& job);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_EXPORT_H_
