// What the interface has and this program does not do yet. A line goes when its feature comes.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "launch/validation.h"

namespace reprise {

absl::Status RefuseNotBuilt(const TrainConfiguration& c) {
  struct Refusal {
    bool asked;
    const char* what;
    const char* instead;
  };
  const bool resumes = c.resume != "none" && (c.resume != "auto" || !c.snapshot_dir.empty());
  const Refusal refusals[] = {
      {c.replicas > 1, "--replicas above 1", "every rank holds one shard of one model"},
      {c.offload_parameters, "--offload=parameters", "activations is"},
      {c.offload_optimizer, "--offload=optimizer", "activations is"},
      {!c.offload_file.empty(), "--offload_file", "offloaded bytes stay in memory"},
      {!c.snapshot_dir.empty(), "--snapshot_dir", "leave it out"},
      {c.snapshot_every > 0, "--snapshot_every", "leave it out"},
      {resumes, "--resume of a snapshot", "use none"},
  };
  for (const Refusal& refusal : refusals) {
    if (refusal.asked) {
      return absl::InvalidArgumentError(absl::StrCat(refusal.what, " is not built yet; ", refusal.instead));
    }
  }
  return absl::OkStatus();
}

}  // namespace reprise
