#include "launch/plan.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "device/affinity.h"
#include "launch/exit_code.h"
#include "launch/job_setup.h"
#include "launch/plan_text.h"
#include "runtime/tensor/kernel_set.h"

namespace reprise {
namespace {

// Ranks of the launcher that started this process; 1 without one. `plan` itself needs no MPI.
int LauncherRanks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    int ranks = 0;
    if (const char* value = std::getenv(name); value != nullptr && absl::SimpleAtoi(value, &ranks) && ranks > 0) {
      return ranks;
    }
  }
  return 1;
}

absl::Status PrintPlan(const TrainConfiguration& configuration) {
  ASSIGN_OR_RETURN(JobSetup setup, MakeJobSetup(PosixStorage(), configuration));
  const int ranks = LauncherRanks();
  // Scratch of some kernels depends on the number of threads.
  const int threads =
      configuration.threads > 0 ? static_cast<int>(configuration.threads) : CoresForRank(0, ranks).cores;
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = threads});
  ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> job, MakeJobPlan(setup.source.model, setup.options, ranks, kernels));
  std::fputs(PlanText(*job).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

int PlanMain(const TrainConfiguration& configuration) {
  if (!IsFirstProcess()) return kExitDone;
  const absl::Status status = PrintPlan(configuration);
  if (!status.ok()) PrintError(status);
  return ExitCodeFor(status);
}

}  // namespace reprise
