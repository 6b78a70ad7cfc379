#include "runtime/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace reprise {

absl::StatusOr<Decay> ParseDecay(absl::string_view name) {
  if (name == "cosine") return Decay::kCosine;
  if (name == "linear") return Decay::kLinear;
  if (name == "constant") return Decay::kConstant;
  return absl::InvalidArgumentError(absl::StrCat("--decay is '", name, "'; it must be cosine, linear or constant"));
}

absl::Status Validate(const LearningRateSettings& settings) {
  const auto refuse = [](absl::string_view flag, auto value, absl::string_view must) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " is ", value, "; it must be ", must));
  };
  if (!std::isfinite(settings.base) || settings.base < 0) {
    return refuse("--learning_rate", settings.base, "a number of at least 0");
  }
  if (!std::isfinite(settings.minimum) || settings.minimum < 0 || settings.minimum > settings.base) {
    return refuse("--min_learning_rate", settings.minimum,
                  absl::StrCat("from 0 to --learning_rate, which is ", settings.base));
  }
  if (settings.steps < 1) return refuse("--steps", settings.steps, "at least 1");
  if (settings.warmup_steps < 0 || settings.warmup_steps > settings.steps) {
    return refuse("--warmup_steps", settings.warmup_steps,
                  absl::StrCat("from 0 to the steps in all, which are ", settings.steps));
  }
  return absl::OkStatus();
}

double LearningRate(const LearningRateSettings& settings, int64_t step) {
  REPRISE_CHECK(step >= 0) << "step " << step;
  step = std::min(step, settings.steps - 1);
  const auto warmup = static_cast<double>(settings.warmup_steps);
  const auto done = static_cast<double>(step) + 1;
  if (step < settings.warmup_steps) return settings.base * done / warmup;
  const double progress = (done - warmup) / (static_cast<double>(settings.steps) - warmup);
  const double range = settings.base - settings.minimum;
  switch (settings.decay) {
    case Decay::kConstant:
      return settings.base;
    case Decay::kLinear:
      return settings.minimum + range * (1 - progress);
    case Decay::kCosine:
      return settings.minimum + range * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return settings.base;
}

}  // namespace reprise
