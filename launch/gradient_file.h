// --dump_gradients: whole, unclipped gradients of the last step, divided by the count of counted labels, as float32
// safetensors under the names of a Hugging Face folder.
#ifndef REPRISE_LAUNCH_GRADIENT_FILE_H_
#define REPRISE_LAUNCH_GRADIENT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/snapshot/safetensors.h"
#include "runtime/train/training_job.h"

namespace reprise {

// Opens the file, which appears whole or not at all. On rank 0.
absl::StatusOr<std::unique_ptr<SafetensorsWriter>> OpenGradientFile(Storage& storage, const std::string& path,
                                                                    const TrainingJob& job);

// Collective; `writer` is null on other ranks. Takes memory for one tensor.
absl::Status WriteGradientFile(SafetensorsWriter* writer, TrainingJob& job, double factor);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_GRADIENT_FILE_H_
