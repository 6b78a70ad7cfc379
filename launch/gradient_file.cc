#include "launch/gradient_file.h"

#include <vector>

#include "base/status_macros.h"
#include "launch/parameter_order.h"

namespace reprise {

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> OpenGradientFile(Storage& storage, const std::string& path,
                                                                    const TrainingJob& job) {
  std::vector<TensorDeclaration> declarations;
  for (const Parameter* parameter : job.parameters()) {
    if (!job.IsTrained(*parameter)) continue;
    declarations.push_back({parameter->name(), StoredType::kF32, parameter->shape()});
  }
  return SafetensorsWriter::Create(storage, path, std::move(declarations), {{"format", "pt"}});
}

absl::Status WriteGradientFile(SafetensorsWriter* writer, TrainingJob& job, double factor) {
  absl::Status status;
  for (const Parameter* parameter : ParametersByName(job)) {
    if (!job.IsTrained(*parameter)) continue;
    std::vector<float> whole(static_cast<size_t>(parameter->elements()));
    RETURN_IF_ERROR(job.ReadGradient(*parameter, factor, absl::MakeSpan(whole)));
    if (writer != nullptr && status.ok()) status = writer->Write(parameter->name(), absl::MakeConstSpan(whole));
  }
  if (writer != nullptr && status.ok()) status = writer->Finish();
  return status;
}

}  // namespace reprise
