#include "runtime/snapshot/model_config.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;  // ViT's names of 21,843 classes take 1 MB

JsonScalar ParseScalar(absl::string_view text) {
  if (text == "null") return JsonScalar();
  if (text == "true") return true;
  if (text == "false") return false;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  double number = 0;
  if (absl::SimpleAtod(text, &number)) return number;
  return std::string(text);
}

}  // namespace

bool ModelConfig::Has(const std::string& key) const {
  const auto found = values_.find(key);
  return found != values_.end() && !std::holds_alternative<std::monostate>(found->second);
}

absl::StatusOr<const JsonScalar*> ModelConfig::Ask(const std::string& key) {
  read_.insert(key);
  const std::string inside = key + ".";
  const auto nested = values_.lower_bound(inside);
  if (nested != values_.end() && absl::StartsWith(nested->first, inside)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is a list or an object in ", source_, "; it must be one value"));
  }
  return Has(key) ? &values_.find(key)->second : nullptr;
}

absl::Status ModelConfig::Refuse(const std::string& key, absl::string_view what) const {
  const auto found = values_.find(key);
  const std::string value = found == values_.end() ? "not given" : FormatScalar(found->second);
  return absl::InvalidArgumentError(absl::StrCat(key, " is ", value, " in ", source_, "; it must ", what));
}

absl::StatusOr<int64_t> ModelConfig::Integer(const std::string& key, int64_t fallback, int64_t minimum,
                                             int64_t maximum) {
  ASSIGN_OR_RETURN(const JsonScalar* value, Ask(key));
  if (value == nullptr) {
    if (fallback >= minimum && fallback <= maximum) answers_[key] = fallback;
    return fallback;
  }
  const auto* integer = std::get_if<int64_t>(value);
  if (integer == nullptr || *integer < minimum || *integer > maximum) {
    return Refuse(key, absl::StrCat("be a whole number from ", minimum, " to ", maximum));
  }
  answers_[key] = *integer;
  return *integer;
}

absl::StatusOr<double> ModelConfig::Number(const std::string& key, double fallback, double minimum, double maximum) {
  ASSIGN_OR_RETURN(const JsonScalar* value, Ask(key));
  if (value == nullptr) {
    answers_[key] = fallback;
    return fallback;
  }
  const auto* integer = std::get_if<int64_t>(value);
  const auto* number = std::get_if<double>(value);
  const double result = integer != nullptr ? static_cast<double>(*integer) : number != nullptr ? *number : 0.0;
  // Written so that a NaN fails.
  if ((integer == nullptr && number == nullptr) || !(result >= minimum && result <= maximum)) {
    return Refuse(key, absl::StrCat("be a number from ", minimum, " to ", maximum));
  }
  answers_[key] = result;
  return result;
}

absl::StatusOr<bool> ModelConfig::Flag(const std::string& key, bool fallback) {
  ASSIGN_OR_RETURN(const JsonScalar* value, Ask(key));
  const bool* flag = value == nullptr ? &fallback : std::get_if<bool>(value);
  if (flag != nullptr) {
    answers_[key] = *flag;
    return *flag;
  }
  return Refuse(key, "be true or false");
}

absl::StatusOr<std::string> ModelConfig::Text(const std::string& key, const std::string& fallback) {
  ASSIGN_OR_RETURN(const JsonScalar* value, Ask(key));
  const std::string* text = value == nullptr ? &fallback : std::get_if<std::string>(value);
  if (text != nullptr) {
    answers_[key] = *text;
    return *text;
  }
  return Refuse(key, "be text");
}

std::vector<std::string> ModelConfig::UnreadKeys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : values_) {
    if (read_.count(key) == 0) unread.push_back(key);
  }
  return unread;
}

absl::StatusOr<ModelConfig> ReadModelConfig(Storage& storage, const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadWholeFile(storage, path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(FlatJson values, ParseFlatJson(text, path));
  ModelConfig config(std::move(values), path);
  config.set_text(std::move(text));
  return config;
}

absl::StatusOr<ModelConfig> ParseModelConfigFlag(Storage& storage, const std::string& text) {
  if (text.empty()) return ModelConfig();
  // A path may hold '=' and ','; what is there is a path.
  if (text.find('=') == std::string::npos || storage.Exists(text)) return ReadModelConfig(storage, text);
  FlatJson values;
  for (const absl::string_view pair : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    if (key.empty() || value.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--model_config holds '", pair, "'; write key=value,key=value"));
    }
    if (!values.emplace(std::string(key), ParseScalar(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--model_config gives ", key, " twice; give it once"));
    }
  }
  return ModelConfig(std::move(values), "--model_config");
}

}  // namespace reprise
