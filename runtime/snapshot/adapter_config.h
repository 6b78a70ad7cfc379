// PEFT's adapter_config.json: what low-rank adapters a folder holds.
//
//   ASSIGN_OR_RETURN(AdapterConfig config, ReadAdapterConfig(storage, folder));   // config.options for low_rank.h
//   WriteWholeFile(storage, path, ToJson(config));
//
// Beside it stands adapter_model.safetensors, whose tensors are called as parameters are, behind kAdapterPrefix.
#ifndef REPRISE_RUNTIME_SNAPSHOT_ADAPTER_CONFIG_H_
#define REPRISE_RUNTIME_SNAPSHOT_ADAPTER_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/model/low_rank.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

inline constexpr char kAdapterPrefix[] = "base_model.model.";

struct AdapterConfig {
  LowRankOptions options;
  std::string base_model;       // folder or name of the model that they were made for; may be empty
  std::string task;             // "CAUSAL_LM", "IMAGE_CLASSIFICATION"; may be empty
  bool weights_in_out = false;  // PEFT's fan_in_fan_out: the model's weights are [in, out], as GPT-2's
};

// DataLoss, in one sentence that names the file and the mend, for a file that is missing or wrong, and for what it asks
// of PEFT that is not there: another method than LoRA, DoRA, rank-stabilised scaling, trained biases or whole modules,
// ranks or layers by pattern.
absl::StatusOr<AdapterConfig> ReadAdapterConfig(Storage& storage, const std::string& folder);

std::string ToJson(const AdapterConfig& config);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_ADAPTER_CONFIG_H_
