// Where parameters come from: any range of any parameter, in float32.
#ifndef REPRISE_RUNTIME_TRAIN_PARAMETER_SOURCE_H_
#define REPRISE_RUNTIME_TRAIN_PARAMETER_SOURCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/model/block.h"

namespace reprise {

// Fills `out` with elements [first, first + out.size()) of `parameter`. Called for what a rank owns, in no order.
using ParameterSource = std::function<absl::Status(const Parameter& parameter, int64_t first, absl::Span<float> out)>;

// Each parameter's own initialiser, from the seed and the parameter's name: the same for any number of ranks. Normal
// deviates by Box and Muller (1958) from Philox bits.
ParameterSource RandomParameters(uint64_t seed);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_PARAMETER_SOURCE_H_
