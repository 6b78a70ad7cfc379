// Which device a command computes on, from --device, and with what.
//
//   ASSIGN_OR_RETURN(machine.device, ChosenDevice(configuration));                            // alone
//   ASSIGN_OR_RETURN(MachineOptions machine, MachineOfRank(configuration, communicator, share));  // a rank
#ifndef REPRISE_LAUNCH_DEVICE_CHOICE_H_
#define REPRISE_LAUNCH_DEVICE_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "device/affinity.h"
#include "launch/configuration.h"
#include "runtime/train/training_job.h"

namespace reprise {

// "cpu" or "cuda": what was asked for, if it can be used here, or what auto finds. --stream_order=random:SEED is of the
// cpu. InvalidArgument, in one sentence, where the device can't be used.
absl::StatusOr<std::string> ChosenDevice(const TrainConfiguration& configuration);

// Collective. InvalidArgument, too, where auto finds a GPU on some ranks only.
absl::StatusOr<std::string> AgreeOnDevice(const TrainConfiguration& configuration, Communicator& communicator);

// All of the machine that a rank trains on. Collective. `share`: of the host's cores.
absl::StatusOr<MachineOptions> MachineOfRank(const TrainConfiguration& configuration, Communicator& communicator,
                                             const CoreShare& share);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_DEVICE_CHOICE_H_
