#include "runtime/snapshot/adapter_config.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/flat_json.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr char kFile[] = "adapter_config.json";
constexpr int64_t kMostBytes = 1 << 20;

// Asks for a value of one kind in a flat configuration.
class Reader {
 public:
  Reader(FlatJson values, std::string path) : values_(std::move(values)), path_(std::move(path)) {}

  // Null where the key is missing or null.
  const JsonScalar* Find(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end() || std::holds_alternative<std::monostate>(found->second)) return nullptr;
    return &found->second;
  }
  bool HasAnyBelow(const std::string& key) const {
    const auto found = values_.lower_bound(key + ".");
    return found != values_.end() && absl::StartsWith(found->first, key + ".");
  }
  absl::Status Wrong(const std::string& key, absl::string_view wanted) const {
    const JsonScalar* value = Find(key);
    return absl::DataLossError(absl::StrCat(
        path_, ": ", key, " is ", value == nullptr ? "not there" : FormatScalar(*value), "; it must be ", wanted));
  }
  const std::string& path() const { return path_; }

 private:
  FlatJson values_;
  std::string path_;
};

// Each must be off: false, null, "none", empty, or missing.
absl::Status RefuseWhatIsNotThere(const Reader& reader) {
  static constexpr const char* kOff[] = {"use_dora",
                                         "use_rslora",
                                         "use_qalora",
                                         "lora_bias",
                                         "modules_to_save",
                                         "layers_to_transform",
                                         "layer_replication",
                                         "exclude_modules",
                                         "target_parameters",
                                         "trainable_token_indices",
                                         "rank_pattern",
                                         "alpha_pattern",
                                         "bias"};
  for (const char* key : kOff) {
    const JsonScalar* value = reader.Find(key);
    const bool off = value == nullptr || *value == JsonScalar(false) || *value == JsonScalar(EmptyJson()) ||
                     *value == JsonScalar(std::string("none"));
    if (off && !reader.HasAnyBelow(key)) continue;
    return absl::DataLossError(absl::StrCat(reader.path(), ": ", key, value == nullptr ? "" : " = ",
                                            value == nullptr ? "" : FormatScalar(*value),
                                            " asks for what is not there; only plain LoRA adapters are read"));
  }
  return absl::OkStatus();
}

absl::Status ReadTargets(const Reader& reader, std::vector<std::string>* targets) {
  const std::string key = "target_modules";
  if (const JsonScalar* value = reader.Find(key); value != nullptr) {
    if (*value != JsonScalar(std::string("all-linear"))) return reader.Wrong(key, "a list of names, or all-linear");
    targets->push_back("all-linear");
    return absl::OkStatus();
  }
  for (size_t i = 0;; ++i) {
    const JsonScalar* value = reader.Find(absl::StrCat(key, ".", i));
    if (value == nullptr) break;
    const auto* name = std::get_if<std::string>(value);
    if (name == nullptr || name->empty()) return reader.Wrong(absl::StrCat(key, ".", i), "a name");
    targets->push_back(*name);
  }
  return targets->empty() ? reader.Wrong(key, "a list of names, or all-linear") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<AdapterConfig> ReadAdapterConfig(Storage& storage, const std::string& folder) {
  const std::string path = JoinPath(folder, kFile);
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(storage, path, kMostBytes));
  ASSIGN_OR_RETURN(FlatJson values, ParseFlatJson(text, path));
  const Reader reader(std::move(values), path);
  const JsonScalar* type = reader.Find("peft_type");
  if (type == nullptr || *type != JsonScalar(std::string("LORA"))) return reader.Wrong("peft_type", "LORA");
  RETURN_IF_ERROR(RefuseWhatIsNotThere(reader));
  AdapterConfig config;
  const JsonScalar* rank = reader.Find("r");
  const auto* whole = rank == nullptr ? nullptr : std::get_if<int64_t>(rank);
  if (whole == nullptr || *whole < 1 || *whole > (int64_t{1} << 20)) {
    return reader.Wrong("r", "a whole number from 1 to 1048576");
  }
  config.options.rank = *whole;
  const JsonScalar* alpha = reader.Find("lora_alpha");
  if (alpha == nullptr) return reader.Wrong("lora_alpha", "a number above 0");
  if (const auto* number = std::get_if<int64_t>(alpha))
    config.options.alpha = static_cast<double>(*number);
  else if (const auto* real = std::get_if<double>(alpha))
    config.options.alpha = *real;
  else
    config.options.alpha = 0;
  if (!(config.options.alpha > 0 && config.options.alpha < 1e9)) return reader.Wrong("lora_alpha", "a number above 0");
  RETURN_IF_ERROR(ReadTargets(reader, &config.options.targets));
  if (const JsonScalar* base = reader.Find("base_model_name_or_path"); base != nullptr) {
    if (const auto* name = std::get_if<std::string>(base)) config.base_model = *name;
  }
  return config;
}

std::string ToJson(const AdapterConfig& config) {
  nlohmann::ordered_json json = {
      {"peft_type", "LORA"},
      {"base_model_name_or_path", config.base_model},
      {"r", config.options.rank},
      {"lora_alpha", config.options.alpha},
      {"target_modules", config.options.targets},
      {"fan_in_fan_out", config.weights_in_out},
      {"bias", "none"},
      {"lora_dropout", 0.0},
      {"inference_mode", true},
  };
  if (!config.task.empty()) json["task_type"] = config.task;
  if (config.options.targets == std::vector<std::string>{"all-linear"}) json["target_modules"] = "all-linear";
  if (config.options.alpha == static_cast<double>(static_cast<int64_t>(config.options.alpha))) {
    json["lora_alpha"] = static_cast<int64_t>(config.options.alpha);
  }
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace reprise
