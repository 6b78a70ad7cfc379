// A model's configuration under Hugging Face's names, from a config.json or from --model_config: what a model is built
// from (registry.h). Part of the public API.
//
//   ASSIGN_OR_RETURN(int64_t layers, config.Integer("n_layer", /*fallback=*/12, /*minimum=*/1, /*maximum=*/10000));
//   ASSIGN_OR_RETURN(double theta, config.Number("rope_parameters.rope_theta", 1e4, 0, 1e12));
//   config.UnreadKeys();   // what nobody asked for: typing errors, if it came from the command line
//
// A key that is missing or null has its fallback. A value of the wrong type or outside its range is refused in one
// sentence with key and value: DataLoss where it stands in a file, InvalidArgument where it was given by hand.
// For one thread: it remembers what was asked.
#ifndef REPRISE_RUNTIME_MODEL_MODEL_CONFIG_H_
#define REPRISE_RUNTIME_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/flat_json.h"

namespace reprise {

class ModelConfig {
 public:
  ModelConfig() = default;
  // `source` is what messages call it: a path, or "--model_config".
  ModelConfig(FlatJson values, std::string source) : values_(std::move(values)), source_(std::move(source)) {}

  const FlatJson& values() const { return values_; }
  // What was asked for, with what was answered; without the keys that are absent and whose fallback is none of their
  // values.
  const FlatJson& answers() const { return answers_; }
  // The JSON that it was read from; empty for one of --model_config.
  const std::string& text() const { return text_; }
  void set_text(std::string text) { text_ = std::move(text); }
  const std::string& source() const { return source_; }
  bool Has(const std::string& key) const;  // there, and not null

  // A flag's value in place of what the file or its default says.
  void Override(const std::string& key, const JsonScalar& value) { values_[key] = overrides_[key] = value; }
  const FlatJson& overrides() const { return overrides_; }

  // Limits are inclusive. Number takes whole numbers too; Integer takes nothing with a point.
  absl::StatusOr<int64_t> Integer(const std::string& key, int64_t fallback, int64_t minimum, int64_t maximum);
  absl::StatusOr<double> Number(const std::string& key, double fallback, double minimum, double maximum);
  absl::StatusOr<bool> Flag(const std::string& key, bool fallback);
  absl::StatusOr<std::string> Text(const std::string& key, const std::string& fallback);

  // "n_head is 7 in config.json; it must divide n_embd": for a check of the model's own, of a value that may be right
  // elsewhere. InvalidArgument.
  absl::Status Refuse(const std::string& key, absl::string_view what) const;

  std::vector<std::string> UnreadKeys() const;
  std::vector<std::string> AskedKeys() const { return {read_.begin(), read_.end()}; }

 private:
  // The value, or null where the fallback stands. A list or an object is a value of the wrong type.
  absl::StatusOr<const JsonScalar*> Ask(const std::string& key);
  absl::Status BadValue(absl::string_view sentence) const;
  absl::Status RefuseValue(const std::string& key, absl::string_view what) const;

  FlatJson values_;
  std::string source_ = "the default configuration";
  std::string text_;
  std::set<std::string> read_;
  FlatJson answers_;
  FlatJson overrides_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_MODEL_CONFIG_H_
