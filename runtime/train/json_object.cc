#include "runtime/train/json_object.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reprise {
namespace {

std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The shortest text that reads back as the same double, always with a point or an exponent.
std::string Number(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

JsonObject& JsonObject::AddRaw(absl::string_view key, absl::string_view json) {
  absl::StrAppend(&body_, body_.empty() ? "" : ",", Quoted(key), ":", json);
  return *this;
}

JsonObject& JsonObject::Add(absl::string_view key, double value) {
  if (std::isfinite(value)) return AddRaw(key, Number(value));
  not_finite_.emplace_back(std::string(key), std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  return AddRaw(key, "null");
}

JsonObject& JsonObject::Add(absl::string_view key, absl::string_view value) { return AddRaw(key, Quoted(value)); }

JsonObject& JsonObject::Add(absl::string_view key, const std::vector<std::string>& values) {
  const auto quote = [](std::string* out, const std::string& value) { out->append(Quoted(value)); };
  return AddRaw(key, absl::StrCat("[", absl::StrJoin(values, ",", quote), "]"));
}

JsonObject& JsonObject::Add(absl::string_view key, const std::vector<JsonObject>& values) {
  const auto write = [](std::string* out, const JsonObject& value) { out->append(value.text()); };
  return AddRaw(key, absl::StrCat("[", absl::StrJoin(values, ",", write), "]"));
}

}  // namespace reprise
