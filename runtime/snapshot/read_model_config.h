// Where a ModelConfig comes from: a config.json, or the value of --model_config.
//
//   ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfigFlag(storage, "n_layer=12,n_embd=768"));
//
// A file that is missing or not JSON is DataLoss.
#ifndef REPRISE_RUNTIME_SNAPSHOT_READ_MODEL_CONFIG_H_
#define REPRISE_RUNTIME_SNAPSHOT_READ_MODEL_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/model/model_config.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

// A config.json.
absl::StatusOr<ModelConfig> ReadModelConfig(Storage& storage, const std::string& path);

// The value of --model_config: a path to a config.json, or key=value,key=value; empty: every fallback.
absl::StatusOr<ModelConfig> ParseModelConfigFlag(Storage& storage, const std::string& text);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_READ_MODEL_CONFIG_H_
