// A JSON object written key by key, in the order of the calls.
//
//   JsonObject().Add("ranks", 2).Add("hosts", hosts).Add("plan", JsonObject().Add("checkpoint", "every:4")).text()
//   -> {"ranks":2,"hosts":["a","b"],"plan":{"checkpoint":"every:4"}}
//
// Numbers are written so that reading gives the same double back; text that is not UTF-8 has the bad bytes replaced.
// What is not finite is null under its key, for JSON has no other way; `not_finite()` names it.
#ifndef REPRISE_RUNTIME_TRAIN_JSON_OBJECT_H_
#define REPRISE_RUNTIME_TRAIN_JSON_OBJECT_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace reprise {

class JsonObject {
 public:
  template <std::integral T>
  JsonObject& Add(absl::string_view key, T value) {
    if constexpr (std::same_as<T, bool>) return AddRaw(key, value ? "true" : "false");
    return AddRaw(key, std::to_string(value));
  }
  JsonObject& Add(absl::string_view key, double value);
  JsonObject& Add(absl::string_view key, absl::string_view value);
  JsonObject& Add(absl::string_view key, const char* value) { return Add(key, absl::string_view(value)); }
  JsonObject& Add(absl::string_view key, const std::string& value) { return Add(key, absl::string_view(value)); }
  JsonObject& Add(absl::string_view key, const std::vector<std::string>& values);
  JsonObject& Add(absl::string_view key, const std::vector<JsonObject>& values);
  JsonObject& Add(absl::string_view key, const JsonObject& value) { return AddRaw(key, value.text()); }

  bool empty() const { return body_.empty(); }
  std::string text() const { return "{" + body_ + "}"; }

  // Keys and "nan", "inf" or "-inf" of the numbers that were not finite.
  const std::vector<std::pair<std::string, std::string>>& not_finite() const { return not_finite_; }

 private:
  JsonObject& AddRaw(absl::string_view key, absl::string_view json);

  std::string body_;
  std::vector<std::pair<std::string, std::string>> not_finite_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_JSON_OBJECT_H_
