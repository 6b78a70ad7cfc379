#include "runtime/fsdp/sharding.h"

#include "absl/strings/str_cat.h"

namespace reprise {

const char* ShardingName(Sharding sharding) {
  switch (sharding) {
    case Sharding::kFull:
      return "full";
    case Sharding::kGradients:
      return "gradients";
    case Sharding::kOptimizer:
      return "optimizer";
    case Sharding::kNone:
      return "none";
  }
  return "?";
}

absl::StatusOr<Sharding> ParseSharding(absl::string_view name) {
  for (const Sharding s : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    if (name == ShardingName(s)) return s;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sharding=\"", name, "\" is not known; use full, gradients, optimizer or none"));
}

}  // namespace reprise
