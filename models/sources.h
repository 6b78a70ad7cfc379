// From a Hugging Face configuration to a model: one function for each architecture, in X_source.cc.
#ifndef REPRISE_MODELS_SOURCES_H_
#define REPRISE_MODELS_SOURCES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/registry.h"

namespace reprise {

inline constexpr int64_t kMaximumSize = int64_t{1} << 31;  // of any number of a configuration
inline constexpr int64_t kMostLayers = 10000;

// A config.json holds much that no model here reads; a flag does not. Call when all keys have been asked for.
absl::Status RefuseUnknownKeys(const std::string& model, const ModelConfig& config);

absl::StatusOr<ModelSource> BuildGpt2(ModelConfig& config, const ModelOptions& options);
absl::StatusOr<ModelSource> BuildLlama(ModelConfig& config, const ModelOptions& options);
absl::StatusOr<ModelSource> BuildQwen2(ModelConfig& config, const ModelOptions& options);
absl::StatusOr<ModelSource> BuildVit(ModelConfig& config, const ModelOptions& options);

}  // namespace reprise

#endif  // REPRISE_MODELS_SOURCES_H_
