// Models by name, as --model asks for them.
//
//   ASSIGN_OR_RETURN(ModelSource source, BuildModel("gpt2", config, {.dropout = 0.1}));
#ifndef REPRISE_MODELS_REGISTRY_H_
#define REPRISE_MODELS_REGISTRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/model/block.h"
#include "runtime/snapshot/huggingface.h"
#include "runtime/snapshot/model_config.h"

namespace reprise {

struct ModelOptions {
  double dropout = 0;
};

// A model, how its parameters are called in a Hugging Face folder beside their own names, and the config.json of such a
// folder.
struct ModelSource {
  Model model;
  CheckpointOptions checkpoint;
  std::string config_json = {};
};

// InvalidArgument for a name that is not known, sizes that do not fit, and options that a configuration asks for and
// that are not there. On the command line every key must mean something; a config.json may hold more.
absl::StatusOr<ModelSource> BuildModel(const std::string& name, ModelConfig& config, const ModelOptions& options);

}  // namespace reprise

#endif  // REPRISE_MODELS_REGISTRY_H_
