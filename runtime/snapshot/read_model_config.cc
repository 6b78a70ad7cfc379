#include "runtime/snapshot/read_model_config.h"

#include <utility>

#include "absl/strings/ascii.h"
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
