#include "launch/export.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "launch/parameter_order.h"
#include "runtime/model/low_rank.h"
#include "runtime/snapshot/adapter_config.h"
#include "runtime/snapshot/huggingface_writer.h"

namespace reprise {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;  // 4 MiB in float32

HuggingFaceLayout LayoutOf(const TrainConfiguration& c, bool adapter) {
  return {.type = c.export_dtype == "bf16" ? StoredType::kBF16 : StoredType::kF32,
          .part_bytes = c.export_part_size.bytes,
          .adapter = adapter};
}

// What is written, in the order of names.
struct ExportedParameter {
  const Parameter* parameter;
  std::string name;
};

std::vector<ExportedParameter> ExportedOf(const JobSetup& setup, const TrainingJob& job) {
  std::vector<ExportedParameter> exported;
  for (const Parameter* parameter : ParametersByName(job)) {
    if (!setup.adapter.has_value()) {
      exported.push_back({parameter, parameter->name()});
    } else if (IsOfAdapter(setup.source.model, *parameter)) {
      exported.push_back({parameter, kAdapterPrefix + parameter->name()});
    }
  }
  return exported;
}

std::vector<ExpectedTensor> TensorsOf(const std::vector<ExportedParameter>& parameters) {
  std::vector<ExpectedTensor> tensors;
  tensors.reserve(parameters.size());
  for (const ExportedParameter& p : parameters) tensors.push_back({p.name, p.parameter->shape()});
  return tensors;
}

}  // namespace

absl::Status CheckExport(Storage& storage, const TrainConfiguration& configuration, const JobSetup& setup) {
  if (configuration.export_folder.empty()) return absl::OkStatus();
  return HuggingFaceWriter::CheckFolder(storage, configuration.export_folder, setup.adapter.has_value());
}

absl::Status Export(Storage& storage, const TrainConfiguration& configuration, const JobSetup& setup,
                    Communicator& communicator, TrainingJob& job) {
  const std::vector<ExportedParameter> parameters = ExportedOf(setup, job);
  std::unique_ptr<HuggingFaceWriter> writer;
  absl::Status status;  // of rank 0, which goes on taking its part when it can write no more
  if (communicator.rank() == 0) {
    auto created = HuggingFaceWriter::Create(storage, configuration.export_folder, TensorsOf(parameters),
                                             LayoutOf(configuration, setup.adapter.has_value()));
    status = created.status();
    if (created.ok()) writer = *std::move(created);
  }
  std::vector<float> piece;
  for (const auto& [parameter, name] : parameters) {
    for (int64_t first = 0; first < parameter->elements(); first += kPieceElements) {
      piece.resize(static_cast<size_t>(std::min(kPieceElements, parameter->elements() - first)));
      RETURN_IF_ERROR(job.ReadParameterRange(*parameter, first, absl::MakeSpan(piece)));
      if (writer != nullptr && status.ok()) status = writer->Write(name, piece);
    }
  }
  if (writer != nullptr && status.ok())
    status = writer->Finish(setup.adapter.has_value() ? ToJson(*setup.adapter) : setup.source.config_json);
  return Agree(communicator, status);
}

}  // namespace reprise
