// --freeze: which parameters are not trained.
//
//   RETURN_IF_ERROR(Freeze("wte|wpe|h\\.[0-5]\\.", &source.model));   // the embeddings and the first six layers
//
// A parameter is frozen where the regular expression matches a part of its name (RE2's syntax; ^ and $ for the whole).
// It has no gradient, no optimizer state and nothing to reduce; blocks below the first trained one have no backward.
#ifndef REPRISE_LAUNCH_FREEZE_H_
#define REPRISE_LAUNCH_FREEZE_H_

#include <string>

#include "absl/status/status.h"
#include "runtime/model/block.h"

namespace reprise {

// Sets model->trained; what it froze before stays frozen. An empty expression freezes nothing. InvalidArgument for one
// that cannot be read, that matches no parameter, or that leaves nothing to train.
absl::Status Freeze(const std::string& expression, Model* model);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_FREEZE_H_
