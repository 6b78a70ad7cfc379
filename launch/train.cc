#include "launch/train.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "launch/exit_code.h"
#include "launch/training_run.h"

namespace reprise {
namespace {

// After a failed collective the ranks cannot agree on who speaks.
void EndAfterPeerFailure(const absl::Status& status, Communicator& communicator) {
  SpeakAlone(status, communicator.rank());
  std::fflush(stdout);
  communicator.Abort(kExitPeer);
}

// The status of a rank that is not alone in the message: rank 0 speaks for it.
absl::Status OnRank(const absl::Status& status, const Communicator& communicator) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " (on rank ", communicator.rank(), ")"));
}

int Refuse(const absl::Status& status) {
  if (IsFirstProcess()) PrintError(status);
  WriteExitFile(ExitCodeFor(status));
  return ExitCodeFor(status);
}

}  // namespace

int TrainMain(const absl::StatusOr<TrainConfiguration>& configuration) {
  // Elsewhere a rank with bad flags still meets the others: they may be the only ones who could say so.
  if (!configuration.ok() && IsFirstProcess()) return Refuse(configuration.status());
  CommunicatorOptions options;
  if (configuration.ok()) options.deadline_seconds = configuration->deadline;
  absl::StatusOr<std::unique_ptr<Communicator>> communicator = MakeMpiCommunicator(options);
  if (!communicator.ok()) return Refuse(communicator.status());
  absl::Status status = Agree(**communicator, OnRank(configuration.status(), **communicator));
  if (status.ok()) status = RunTraining(*configuration, **communicator);
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
