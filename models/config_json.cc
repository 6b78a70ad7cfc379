#include "models/config_json.h"

#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace reprise {
namespace {

// Sorted by key, as Transformers writes them; an ordered one would take time quadratic in the keys.
using Json = nlohmann::json;

Json ToJson(const JsonScalar& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

Json FromAnswers(const ModelConfig& config) {
  Json json = Json::object();
  for (const auto& [key, value] : config.answers()) {
    Json* place = &json;
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(key, '.'))) place = &(*place)[part];
    *place = ToJson(value);
  }
  return json;
}

}  // namespace

std::string ConfigJson(const ModelConfig& config, const std::string& model_type, const std::string& architecture) {
  Json json = Json::parse(config.text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) json = FromAnswers(config);
  for (const auto& [key, value] : config.overrides()) json[key] = ToJson(value);
  if (!json.contains("architectures") && !architecture.empty()) json["architectures"] = {architecture};
  json["model_type"] = model_type;
  return absl::StrCat(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace), "\n");
}

}  // namespace reprise
