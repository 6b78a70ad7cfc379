#include "models/sizes.h"

#include "absl/strings/str_cat.h"

namespace reprise {

absl::Status CheckSizes(std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > (int64_t{1} << 31)) {
      return absl::InvalidArgumentError(
          absl::StrCat("model_config: ", name, "=", size, " is not a size from 1 to 2^31"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParameterCount(double parameters) {
  constexpr double kMost = 0x1p48;
  if (parameters <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model_config: these sizes make ", parameters, " parameters, beyond 2^48; check them"));
}

absl::Status CheckNumber(const char* name, double value, double minimum, double maximum) {
  if (value >= minimum && value <= maximum) return absl::OkStatus();  // not so for a NaN
  return absl::InvalidArgumentError(
      absl::StrCat("model_config: ", name, "=", value, " is not a number from ", minimum, " to ", maximum));
}

absl::Status CheckDropout(double dropout) {
  if (dropout >= 0 && dropout < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dropout=", dropout, " is not in [0, 1)"));
}

}  // namespace reprise
