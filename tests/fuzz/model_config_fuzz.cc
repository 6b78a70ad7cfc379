// A config.json, to the model that it describes: one that is accepted can be traced, and its config.json gives the
// same.
#include <variant>

#include "models/registry.h"
#include "models/sources.h"
#include "runtime/model/program.h"
#include "runtime/snapshot/read_model_config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

namespace reprise::testing {
namespace {

constexpr int64_t kMostBuiltLayers = 64;  // more take time and show nothing new
constexpr int64_t kMostTracedLayers = 4;

bool IsDeep(const FlatJson& values) {
  for (const char* key : {"n_layer", "num_hidden_layers"}) {
    const auto found = values.find(key);
    const auto* layers = found == values.end() ? nullptr : std::get_if<int64_t>(&found->second);
    if (layers != nullptr && *layers > kMostBuiltLayers && *layers <= kMostLayers) return true;
  }
  return false;
}

absl::StatusOr<ModelSource> Build(const std::string& json) {
  MemoryStorage storage;
  storage.Put("config.json", json);
  auto config = ReadModelConfig(storage, "config.json");
  if (!config.ok()) return config.status();
  if (IsDeep(config->values())) return absl::DataLossError("deep");
  return BuildModel("gpt2", *config, {});
}

}  // namespace
}  // namespace reprise::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  const auto source = Build(std::string(TextOf(data, size)));
  if (!source.ok()) {
    const bool by_model = source.status().code() == absl::StatusCode::kInvalidArgument;
    CheckRefusal(source.status(), by_model ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss);
    return 0;
  }
  if (source->model.layer_count() > kMostTracedLayers) return 0;
  const BatchShape shape = {.sequences = 1, .sequence_length = 1};
  const std::string program = TraceModel(source->model, shape).ToString();
  const auto again = Build(source->config_json);
  REPRISE_CHECK(again.ok()) << again.status().ToString() << source->config_json;
  REPRISE_CHECK(TraceModel(again->model, shape).ToString() == program) << source->config_json;
  return 0;
}
