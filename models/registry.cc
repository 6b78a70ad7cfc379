#include "models/registry.h"

#include <algorithm>
#include <iterator>
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

struct Entry {
  const char* name;          // and the model_type of its config.json
  const char* architecture;  // the class of Transformers that opens it
  absl::StatusOr<ModelSource> (*build)(ModelConfig& config, const ModelOptions& options);
};
constexpr Entry kModels[] = {{kDefault, "GPT2LMHeadModel", BuildGpt2},
                             {"llama", "LlamaForCausalLM", BuildLlama},
                             {"qwen2", "Qwen2ForCausalLM", BuildQwen2}};

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

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
  const auto* const entry =
      std::find_if(std::begin(kModels), std::end(kModels), [&](const Entry& e) { return type == e.name; });
  if (entry != std::end(kModels)) {
    ASSIGN_OR_RETURN(ModelSource source, entry->build(config, options));
    source.config_json = ConfigJson(config, entry->name, entry->architecture);
    return source;
  }
  const std::string known = absl::StrJoin(Names(), ", ");
  if (config.Has("model_type")) return config.Refuse("model_type", absl::StrCat("be one of ", known));
  return absl::InvalidArgumentError(
      absl::StrCat("model=\"", name, "\" is not known; use one of ", known, DidYouMean(name, Names())));
}

}  // namespace reprise
