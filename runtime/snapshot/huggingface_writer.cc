#include "runtime/snapshot/huggingface_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

using Json = nlohmann::json;  // sorted by key, as Transformers writes them

constexpr char kIndex[] = "model.safetensors.index.json";

std::string ConfigFile(bool adapter) { return adapter ? "adapter_config.json" : "config.json"; }
std::string WholeFile(bool adapter) { return adapter ? "adapter_model.safetensors" : "model.safetensors"; }

int64_t Elements(const ExpectedTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  return elements;
}

std::string Dump(const Json& json) {
  return absl::StrCat(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace), "\n");
}

}  // namespace

absl::Status HuggingFaceWriter::CheckFolder(Storage& storage, const std::string& folder, bool adapter) {
  for (const std::string& name : {ConfigFile(adapter), WholeFile(adapter), std::string(kIndex)}) {
    const std::string path = JoinPath(folder, name);
    if (!storage.Exists(path)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is there already, and a checkpoint is never replaced; name another folder, or remove this one"));
  }
  RETURN_IF_ERROR(storage.CreateFolder(folder));
  // Dropped without a trace: whether it can be made is what matters.
  return storage.Create(JoinPath(folder, ConfigFile(adapter))).status();
}

absl::StatusOr<std::unique_ptr<HuggingFaceWriter>> HuggingFaceWriter::Create(Storage& storage,
                                                                             const std::string& folder,
                                                                             std::vector<ExpectedTensor> tensors,
                                                                             const HuggingFaceLayout& layout) {
  REPRISE_CHECK(layout.type == StoredType::kF32 || layout.type == StoredType::kBF16);
  RETURN_IF_ERROR(CheckFolder(storage, folder, layout.adapter));
  auto writer = std::unique_ptr<HuggingFaceWriter>(new HuggingFaceWriter(storage, folder, layout));
  std::sort(tensors.begin(), tensors.end(),
            [](const ExpectedTensor& a, const ExpectedTensor& b) { return a.name < b.name; });
  writer->tensors_ = std::move(tensors);
  writer->SplitIntoParts();
  return writer;
}

void HuggingFaceWriter::SplitIntoParts() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t bytes = Elements(tensors_[i]) * StoredTypeBytes(layout_.type);
    const bool full = !parts_.empty() && !layout_.adapter && parts_.back().bytes + bytes > layout_.part_bytes;
    if (parts_.empty() || full) parts_.push_back({"", i, i, 0});
    parts_.back().end = i + 1;
    parts_.back().bytes += bytes;
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].file = parts_.size() == 1 ? WholeFile(layout_.adapter)
                                        : absl::StrFormat("model-%05d-of-%05d.safetensors", p + 1, parts_.size());
  }
}

absl::Status HuggingFaceWriter::OpenPart() {
  const Part& part = parts_[part_];
  std::vector<TensorDeclaration> declarations;
  for (size_t i = part.begin; i < part.end; ++i) {
    declarations.push_back({tensors_[i].name, layout_.type, tensors_[i].shape});
  }
  ASSIGN_OR_RETURN(writer_, SafetensorsWriter::Create(storage_, JoinPath(folder_, part.file), std::move(declarations),
                                                      {{"format", "pt"}}));
  return absl::OkStatus();
}

absl::Status HuggingFaceWriter::FinishPart() {
  RETURN_IF_ERROR(writer_->Finish());
  writer_.reset();
  ++part_;
  return absl::OkStatus();
}

absl::Status HuggingFaceWriter::Write(const std::string& name, absl::Span<const float> values) {
  REPRISE_CHECK(tensor_ < tensors_.size() && tensors_[tensor_].name == name) << "it is not the turn of " << name;
  if (writer_ == nullptr) RETURN_IF_ERROR(OpenPart());
  RETURN_IF_ERROR(writer_->Write(name, values));
  elements_ += static_cast<int64_t>(values.size());
  if (elements_ < Elements(tensors_[tensor_])) return absl::OkStatus();
  elements_ = 0;
  if (++tensor_ == parts_[part_].end) return FinishPart();
  return absl::OkStatus();
}

absl::Status HuggingFaceWriter::WriteIndex() {
  int64_t bytes = 0;
  Json map = Json::object();
  for (const Part& part : parts_) {
    bytes += part.bytes;
    for (size_t i = part.begin; i < part.end; ++i) map[tensors_[i].name] = part.file;
  }
  return WriteWholeFile(storage_, JoinPath(folder_, kIndex),
                        Dump({{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}}));
}

absl::Status HuggingFaceWriter::Finish(absl::string_view config_json) {
  REPRISE_CHECK(tensor_ == tensors_.size()) << "not every tensor was written";
  if (parts_.size() > 1) RETURN_IF_ERROR(WriteIndex());
  const std::string path = JoinPath(folder_, ConfigFile(layout_.adapter));
  if (layout_.adapter) return WriteWholeFile(storage_, path, config_json);
  ASSIGN_OR_RETURN(const std::string config, WithElementType(config_json, layout_.type));
  return WriteWholeFile(storage_, path, config);
}

absl::StatusOr<std::string> WithElementType(absl::string_view config_json, StoredType type) {
  Json json = Json::parse(config_json.begin(), config_json.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the model's configuration is not a JSON object");
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = type == StoredType::kBF16 ? "bfloat16" : "float32";
  return Dump(json);
}

}  // namespace reprise
