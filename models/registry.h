// A model of the registry (runtime/model/registry.h) by its name, as --model asks for it.
//
//   ASSIGN_OR_RETURN(ModelSource source, BuildModel("gpt2", config, {.dropout = 0.1}));
#ifndef REPRISE_MODELS_REGISTRY_H_
#define REPRISE_MODELS_REGISTRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/model/registry.h"

namespace reprise {

// The model that `config` names by its model_type where that is there and `name` is the default one, gpt2; else `name`.
// InvalidArgument for a name that is not known, sizes that do not fit, and options that a configuration asks for and
// that are not there. On the command line every key must mean something; a config.json may hold more.
absl::StatusOr<ModelSource> BuildModel(const std::string& name, ModelConfig& config, const ModelOptions& options);

}  // namespace reprise

#endif  // REPRISE_MODELS_REGISTRY_H_
