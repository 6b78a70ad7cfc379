// A plug-in with a model whose name is taken.
#include "runtime/model/plugin.h"
#include "runtime/model/registry.h"

namespace {

absl::StatusOr<reprise::ModelSource> Build(reprise::ModelConfig& /*config*/, const reprise::ModelOptions& /*options*/) {
  return reprise::ModelSource{};
}

}  // namespace

REPRISE_REGISTER_MODEL("gpt2", Build);
REPRISE_PLUGIN();
