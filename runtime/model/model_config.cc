#include "runtime/model/model_config.h"

#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

// As a message shows it: the beginning of what is long.
std::string Shown(const JsonScalar& value) {
  constexpr size_t kMostBytes = 100;
  const std::string text = FormatScalar(value);
  return text.size() <= kMostBytes ? text : absl::StrCat(text.substr(0, kMostBytes), "...");
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
    return BadValue(absl::StrCat(key, " is a list or an object in ", source_, "; it must be one value"));
  }
  return Has(key) ? &values_.find(key)->second : nullptr;
}

absl::Status ModelConfig::Refuse(const std::string& key, absl::string_view what) const {
  const auto found = values_.find(key);
  const std::string value = found == values_.end() ? "not given" : Shown(found->second);
  return absl::InvalidArgumentError(absl::StrCat(key, " is ", value, " in ", source_, "; it must ", what));
}

absl::Status ModelConfig::BadValue(absl::string_view sentence) const {
  return text_.empty() ? absl::InvalidArgumentError(sentence) : absl::DataLossError(sentence);
}

absl::Status ModelConfig::RefuseValue(const std::string& key, absl::string_view what) const {
  return BadValue(Refuse(key, what).message());
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
    return RefuseValue(key, absl::StrCat("be a whole number from ", minimum, " to ", maximum));
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
    return RefuseValue(key, absl::StrCat("be a number from ", minimum, " to ", maximum));
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
  return RefuseValue(key, "be true or false");
}

absl::StatusOr<std::string> ModelConfig::Text(const std::string& key, const std::string& fallback) {
  ASSIGN_OR_RETURN(const JsonScalar* value, Ask(key));
  const std::string* text = value == nullptr ? &fallback : std::get_if<std::string>(value);
  if (text != nullptr) {
    answers_[key] = *text;
    return *text;
  }
  return RefuseValue(key, "be text");
}

std::vector<std::string> ModelConfig::UnreadKeys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : values_) {
    if (read_.count(key) == 0) unread.push_back(key);
  }
  return unread;
}

}  // namespace reprise
