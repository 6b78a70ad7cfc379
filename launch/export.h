// --export: the trained model as a Hugging Face folder.
//
//   RETURN_IF_ERROR(Agree(communicator, CheckExport(storage, configuration)));    // rank 0, before the first step
//   RETURN_IF_ERROR(Export(storage, configuration, source, communicator, job));   // all ranks, at the end
#ifndef REPRISE_LAUNCH_EXPORT_H_
#define REPRISE_LAUNCH_EXPORT_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "launch/configuration.h"
#include "models/registry.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/training_job.h"

namespace reprise {

// InvalidArgument where the folder can't be written or holds a checkpoint already.
absl::Status CheckExport(Storage& storage, const TrainConfiguration& configuration);

// Collective; rank 0 writes. Each rank takes memory for one piece of a tensor. Every rank gets the same answer.
absl::Status Export(Storage& storage, const TrainConfiguration& configuration, const ModelSource& source,
                    Communicator& communicator, TrainingJob& job);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_EXPORT_H_
