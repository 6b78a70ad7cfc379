#include "models/registry.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "models/config_json.h"
#include "models/sources.h"

namespace reprise {
namespace {

constexpr char kDefault[] = "gpt2";

}  // namespace

absl::Status RefuseUnknownKeys(const std::string& model, const ModelConfig& config) {
  const std::vector<std::string> unread = config.UnreadKeys();
  if (config.source() != "--model_config" || unread.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--model_config: ", model, " has no setting \"", unread.front(), "\"",
                                                 DidYouMean(unread.front(), config.AskedKeys())));
}

absl::StatusOr<ModelSource> BuildModel(const std::string& name, ModelConfig& config, const ModelOptions& options) {
  ASSIGN_OR_RETURN(const std::string type, config.Text("model_type", name));
  if (name != kDefault && type != name) {
    return config.Refuse("model_type", absl::StrCat("be ", name, ", as --model says"));
  }
  if (const ModelEntry* entry = FindModel(type); entry != nullptr) {
    ASSIGN_OR_RETURN(ModelSource source, entry->build(config, options));
    RETURN_IF_ERROR(RefuseUnknownKeys(type, config));
    if (source.model.blocks.size() < 2) {
      return absl::InvalidArgumentError(absl::StrCat("model ", type, " has ", source.model.blocks.size(),
                                                     " blocks; it needs a first one and a last one with the loss"));
    }
    if (source.config_json.empty()) source.config_json = ConfigJson(config, type, entry->architecture);
    return source;
  }
  const std::string known = absl::StrJoin(ModelNames(), ", ");
  if (config.Has("model_type")) return config.Refuse("model_type", absl::StrCat("be one of ", known));
  return absl::InvalidArgumentError(
      absl::StrCat("model=\"", name, "\" is not known; use one of ", known, DidYouMean(name, ModelNames())));
}

}  // namespace reprise
