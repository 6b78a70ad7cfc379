#include "launch/train.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "launch/exit_code.h"
#include "launch/training_run.h"

namespace reprise {
namespace {

// After a failed collective the ranks cannot agree on who speaks: the lowest one that still runs does, and its Abort
// ends the others while they wait their turn.
void EndAfterPeerFailure(const absl::Status& status, Communicator& communicator) {
  constexpr auto kTurn = std::chrono::milliseconds(400);
  std::this_thread::sleep_for(kTurn * std::min(communicator.rank(), 8));
  PrintError(status);
  WriteExitFile(kExitPeer);
  std::fflush(stdout);
  communicator.Abort(kExitPeer);
}

}  // namespace

int TrainMain(const TrainConfiguration& configuration) {
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      MakeMpiCommunicator({.deadline_seconds = configuration.deadline});
  if (!communicator.ok()) {
    if (IsFirstProcess()) PrintError(communicator.status());
    WriteExitFile(ExitCodeFor(communicator.status()));
    return ExitCodeFor(communicator.status());
  }
  const absl::Status status = RunTraining(configuration, **communicator);
  const int code = ExitCodeFor(status);
  if (code == kExitPeer) EndAfterPeerFailure(status, **communicator);
  if (!status.ok()) {
    // Every rank has come to the same error.
    if ((*communicator)->rank() == 0) PrintError(status);
    WriteExitFile(code);
  }
  communicator->reset();
  return code;
}

}  // namespace reprise
