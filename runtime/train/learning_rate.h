// The learning rate of a step: a linear warm-up, then a decay.
//
//   LearningRateSettings settings = {.base = 1e-3, .warmup_steps = 4, .steps = 8, .decay = Decay::kLinear};
//   RETURN_IF_ERROR(Validate(settings));
//   LearningRate(settings, 0)   // 2.5e-4, then 5e-4, 7.5e-4, 1e-3, 7.5e-4, 5e-4, 2.5e-4, 0
//
// Step s counts from 0, of n in all, w of them warm-up. For s < w: base (s + 1) / w. From then on with
// d = (s + 1 - w) / (n - w), which is 1 at the last step: linear: minimum + (base - minimum) (1 - d);
// cosine (Loshchilov and Hutter 2017, without restarts): minimum + (base - minimum) (1 + cos(pi d)) / 2; constant:
// base. It depends on the step alone: not on ranks, accumulation, or whether the run was resumed.
#ifndef REPRISE_RUNTIME_TRAIN_LEARNING_RATE_H_
#define REPRISE_RUNTIME_TRAIN_LEARNING_RATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace reprise {

enum class Decay : uint8_t { kCosine, kLinear, kConstant };

// "cosine", "linear", "constant"; InvalidArgument for anything else.
absl::StatusOr<Decay> ParseDecay(absl::string_view name);

struct LearningRateSettings {
  double base = 0;
  double minimum = 0;        // where the decay ends
  int64_t warmup_steps = 0;  // at most `steps`
  int64_t steps = 0;         // in all
  Decay decay = Decay::kCosine;
};

// InvalidArgument, naming the flag, for numbers that are negative, not finite or at odds with each other.
absl::Status Validate(const LearningRateSettings& settings);

// For valid settings and step >= 0; a step beyond the last has the last one's rate.
double LearningRate(const LearningRateSettings& settings, int64_t step);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_LEARNING_RATE_H_
