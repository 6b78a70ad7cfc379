// Parameters a little off, for finite differences of a whole job.
//
//   job->SetParameters(Perturbed(parameter, /*element=*/3, 1e-3F));
#ifndef REPRISE_TESTS_TOOLS_PERTURBED_H_
#define REPRISE_TESTS_TOOLS_PERTURBED_H_

#include <cstdint>

#include "runtime/train/parameter_source.h"

namespace reprise::testing {

// The parameters of seed 1, with `change` added to one element of one of them.
inline ParameterSource Perturbed(const Parameter* which, int64_t element, float change) {
  return [=](const Parameter& parameter, int64_t first, absl::Span<float> out) {
    const absl::Status status = RandomParameters(1)(parameter, first, out);
    const int64_t place = element - first;
    if (&parameter == which && place >= 0 && place < static_cast<int64_t>(out.size())) {
      out[static_cast<size_t>(place)] += change;
    }
    return status;
  };
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_PERTURBED_H_
