#include "launch/plan.h"

#include "absl/status/status.h"
#include "launch/exit_code.h"

namespace reprise {

int PlanMain(const TrainConfiguration& /*configuration*/) {
  const absl::Status status = absl::UnimplementedError("'reprise plan' is not built into this program yet");
  if (IsFirstProcess()) PrintError(status);
  return ExitCodeFor(status);
}

}  // namespace reprise
