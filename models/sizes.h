// Checks that the configurations of all models share.
#ifndef REPRISE_MODELS_SIZES_H_
#define REPRISE_MODELS_SIZES_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"

namespace reprise {

inline constexpr double kSmallestEpsilon = 1e-30;  // of a norm
inline constexpr double kLargestDeviation = 1e6;   // of an initialiser

// InvalidArgument that names the first size that is not from 1 to 2^31.
absl::Status CheckSizes(std::initializer_list<std::pair<const char*, int64_t>> sizes);

// InvalidArgument for a probability that is not in [0, 1).
absl::Status CheckDropout(double dropout);

// InvalidArgument for more parameters than any plan can count the bytes of in 63 bits. A double, so that what is asked
// about cannot overflow.
absl::Status CheckParameterCount(double parameters);

// InvalidArgument for a number of a configuration that is not finite, or not from `minimum` to `maximum`.
absl::Status CheckNumber(const char* name, double value, double minimum, double maximum);

}  // namespace reprise

#endif  // REPRISE_MODELS_SIZES_H_
