// What is sharded over ranks, and in which type each copy stands (ZeRO, Rajbhandari et al. 2020; FSDP).
//
//              parameters   gradients        optimizer state
//   full       sharded      sharded          sharded          gathered a unit at a time
//   gradients  whole        sharded          sharded          gathered after the update
//   optimizer  whole        whole, reduced   sharded          gathered after the update
//                           at the end
//   none       whole        whole, summed    whole
//                           at the end
#ifndef REPRISE_RUNTIME_FSDP_SHARDING_H_
#define REPRISE_RUNTIME_FSDP_SHARDING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace reprise {

enum class Sharding : uint8_t { kFull, kGradients, kOptimizer, kNone };

const char* ShardingName(Sharding sharding);
absl::StatusOr<Sharding> ParseSharding(absl::string_view name);

// Whether each micro-batch's gradients are reduced at once into the shard (else they are accumulated whole first).
constexpr bool ReducesEachMicroBatch(Sharding s) { return s == Sharding::kFull || s == Sharding::kGradients; }

}  // namespace reprise

#endif  // REPRISE_RUNTIME_FSDP_SHARDING_H_
