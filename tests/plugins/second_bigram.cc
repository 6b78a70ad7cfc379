// A plug-in with a model of the same name as another plug-in's.
#include "runtime/model/plugin.h"
#include "runtime/model/registry.h"

namespace {

absl::StatusOr<reprise::ModelSource> Build(reprise::ModelConfig& /*config*/, const reprise::ModelOptions& /*options*/) {
  return reprise::ModelSource{};
}

}  // namespace

REPRISE_REGISTER_MODEL("bigram", Build);
REPRISE_PLUGIN();
