// The config.json of a model, from the configuration that it was built from.
#ifndef REPRISE_MODELS_CONFIG_JSON_H_
#define REPRISE_MODELS_CONFIG_JSON_H_

#include <string>

#include "runtime/model/model_config.h"

namespace reprise {

// The text that it was read from, with every member that it had; else what the model asked for. Either way with what
// flags say in place of members, the model_type and the class that Transformers opens it with, if there is one.
std::string ConfigJson(const ModelConfig& config, const std::string& model_type, const std::string& architecture);

}  // namespace reprise

#endif  // REPRISE_MODELS_CONFIG_JSON_H_
