// Checks that the configurations of all models share.
#ifndef REPRISE_MODELS_SIZES_H_
#define REPRISE_MODELS_SIZES_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"

namespace reprise {

// InvalidArgument that names the first size that is not from 1 to 2^31.
absl::Status CheckSizes(std::initializer_list<std::pair<const char*, int64_t>> sizes);

// InvalidArgument for a probability that is not in [0, 1).
absl::Status CheckDropout(double dropout);

}  // namespace reprise

#endif  // REPRISE_MODELS_SIZES_H_
