#include "launch/export.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "launch/parameter_order.h"
#include "runtime/snapshot/huggingface_writer.h"

namespace reprise {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;  // 4 MiB in float32

HuggingFaceLayout LayoutOf(const TrainConfiguration& c) {
  return {.type = c.export_dtype == "bf16" ? StoredType::kBF16 : StoredType::kF32,
          .part_bytes = c.export_part_size.bytes};
}

std::vector<ExpectedTensor> TensorsOf(const std::vector<const Parameter*>& parameters) {
  std::vector<ExpectedTensor> tensors;
  tensors.reserve(parameters.size());
  for (const Parameter* parameter : parameters) tensors.push_back({parameter->name(), parameter->shape()});
  return tensors;
}

}  // namespace

absl::Status CheckExport(Storage& storage, const TrainConfiguration& configuration) {
  if (configuration.export_folder.empty()) return absl::OkStatus();
  return HuggingFaceWriter::CheckFolder(storage, configuration.export_folder);
}

absl::Status Export(Storage& storage, const TrainConfiguration& configuration, const ModelSource& source,
                    Communicator& communicator, TrainingJob& job) {
  const std::vector<const Parameter*> parameters = ParametersByName(job);
  std::unique_ptr<HuggingFaceWriter> writer;
  absl::Status status;  // of rank 0, which goes on taking its part when it can write no more
  if (communicator.rank() == 0) {
    auto created =
        HuggingFaceWriter::Create(storage, configuration.export_folder, TensorsOf(parameters), LayoutOf(configuration));
    status = created.status();
    if (created.ok()) writer = *std::move(created);
  }
  std::vector<float> piece;
  for (const Parameter* parameter : parameters) {
    for (int64_t first = 0; first < parameter->elements(); first += kPieceElements) {
      piece.resize(static_cast<size_t>(std::min(kPieceElements, parameter->elements() - first)));
      RETURN_IF_ERROR(job.ReadParameterRange(*parameter, first, absl::MakeSpan(piece)));
      if (writer != nullptr && status.ok()) status = writer->Write(parameter->name(), piece);
    }
  }
  if (writer != nullptr && status.ok()) status = writer->Finish(source.config_json);
  return Agree(communicator, status);
}

}  // namespace reprise
