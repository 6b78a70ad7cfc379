#include "launch/device_choice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/train/backend.h"

namespace reprise {

absl::StatusOr<std::string> ChosenDevice(const TrainConfiguration& c) {
  if (c.device == "auto") return c.random_stream_order ? "cpu" : ChooseDevice();
  if (c.device == "cuda" && c.random_stream_order) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stream_order=", c.stream_order, " is for --device=cpu; leave out one of the two"));
  }
  ASSIGN_OR_RETURN(const Backend* backend, FindBackend(c.device));
  RETURN_IF_ERROR(backend->Check());
  return c.device;
}

absl::StatusOr<std::string> AgreeOnDevice(const TrainConfiguration& configuration, Communicator& communicator) {
  const absl::StatusOr<std::string> mine = ChosenDevice(configuration);
  RETURN_IF_ERROR(Agree(communicator, mine.status()));
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(communicator, *mine));
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& device) { return device != all[0]; });
  if (other == all.end()) return *mine;
  return absl::InvalidArgumentError(absl::StrCat("--device=auto finds ", all[0], " on rank 0 and ", *other, " on rank ",
                                                 other - all.begin(),
                                                 "; look at nvidia-smi on its host, or choose with --device"));
}

}  // namespace reprise
