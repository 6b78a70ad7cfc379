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

absl::StatusOr<MachineOptions> MachineOfRank(const TrainConfiguration& c, Communicator& communicator,
                                             const CoreShare& share) {
  MachineOptions machine;
  ASSIGN_OR_RETURN(machine.device, AgreeOnDevice(c, communicator));
  machine.threads = c.threads > 0 ? static_cast<int>(c.threads) : share.cores;
  // Each rank draws an order of its own.
  machine.stream_order = {.random = c.random_stream_order,
                          .seed = static_cast<uint64_t>(c.stream_order_seed) * 0x9E3779B97F4A7C15ULL +
                                  static_cast<uint64_t>(communicator.rank())};
  machine.cuda_graphs = c.cuda_graphs == "on";
  machine.deadline_seconds = c.deadline;
  return machine;
}

}  // namespace reprise
