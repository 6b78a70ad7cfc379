// Models by name: what --model finds, built in or of a plug-in (plugin.h). Part of the public API.
//
//   absl::StatusOr<ModelSource> BuildBigram(ModelConfig& config, const ModelOptions&) {
//     ASSIGN_OR_RETURN(const int64_t vocabulary, config.Integer("vocab_size", /*fallback=*/256, 1, 1 << 20));
//     ...
//     return ModelSource{std::move(model)};
//   }
//   REPRISE_REGISTER_MODEL("bigram", BuildBigram);        // at namespace scope of a .cc file
//
// A builder returns InvalidArgument for sizes that do not fit (ModelConfig::Refuse names key and value), and takes no
// memory for parameters. Names are registered as code is loaded, by one thread at a time; afterwards any may look them
// up.
#ifndef REPRISE_RUNTIME_MODEL_REGISTRY_H_
#define REPRISE_RUNTIME_MODEL_REGISTRY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/block.h"
#include "runtime/model/checkpoint_options.h"
#include "runtime/model/model_config.h"

namespace reprise {

struct ModelOptions {
  double dropout = 0;      // --dropout
  int64_t image_size = 0;  // --image_size: pixels of a side; 0: as the configuration has it
  bool documents = false;  // --document_separator: rows attend within their document and count positions from its start
};

// A model, how its parameters are called in a Hugging Face folder beside their own names, and the config.json of such a
// folder; empty: made of what the builder asked for.
struct ModelSource {
  Model model;
  CheckpointOptions checkpoint = {};
  std::string config_json = {};
  std::vector<std::string> adapter_targets = {};  // products that --lora_rank adapts where nobody names any
};

using ModelBuilder = std::function<absl::StatusOr<ModelSource>(ModelConfig& config, const ModelOptions& options)>;

struct ModelEntry {
  ModelBuilder build;
  std::string architecture;  // the class of Transformers that opens its folders; empty: none
};

// `name` is also the model_type of its config.json. Returns true; false for a plug-in's name that is taken, which
// refuses the plug-in.
bool RegisterModel(const std::string& name, ModelBuilder build, const std::string& architecture = "");

// Null where there is none. Lives as long as the process.
const ModelEntry* FindModel(const std::string& name);

std::vector<std::string> ModelNames();  // sorted

}  // namespace reprise

#define REPRISE_REGISTER_MODEL(name, builder) REPRISE_REGISTER_MODEL_AT(__COUNTER__, name, builder)
#define REPRISE_REGISTER_MODEL_AT(number, name, builder) REPRISE_REGISTER_MODEL_AS(number, name, builder)
#define REPRISE_REGISTER_MODEL_AS(number, name, builder) \
  [[maybe_unused]] static const bool reprise_registered_model_##number = ::reprise::RegisterModel(name, builder)

#endif  // REPRISE_RUNTIME_MODEL_REGISTRY_H_
