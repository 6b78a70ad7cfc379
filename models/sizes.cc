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

absl::Status CheckDropout(double dropout) {
  if (dropout >= 0 && dropout < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dropout=", dropout, " is not in [0, 1)"));
}

}  // namespace reprise
