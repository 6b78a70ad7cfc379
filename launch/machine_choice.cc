#include "launch/machine_choice.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/communicator.h"
#include "launch/hardware_file.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/times_cache.h"

namespace reprise {
namespace {

absl::StatusOr<MachineTimes> Described(const std::string& name, const JobSetup& setup, int ranks, KernelSet& kernels) {
  ASSIGN_OR_RETURN(const Hardware hardware, ReadHardware(name));
  return EstimateForAnyPlan(hardware, setup, ranks, kernels);
}

absl::StatusOr<MachineTimes> Measured(const TrainConfiguration& configuration, const JobSetup& setup, int ranks,
                                      const MachineOptions& machine) {
  const std::vector<std::unique_ptr<Communicator>> alone = MakeLocalCommunicators(1, {});
  const TimesCache cache(PosixStorage(), CacheFolder(configuration.profile_cache));
  ASSIGN_OR_RETURN(MachineTimes times,
                   CachedMachineTimes(cache, setup.source.model, setup.options, machine, ranks, *alone[0]));
  if (ranks > 1) {
    const TransferTime copy = times.transfer[static_cast<size_t>(Stream::kReload)];
    times.transfer[static_cast<size_t>(Stream::kGather)] = copy;
    times.transfer[static_cast<size_t>(Stream::kReduce)] = copy;
  }
  return times;
}

}  // namespace

std::string CacheFolder(const std::string& flag) {
  if (flag == "none") return "";
  if (flag != "auto") return flag;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0') {
    return JoinPath(folder, "reprise");
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return JoinPath(JoinPath(home, ".cache"), "reprise");
  }
  return "";
}

absl::StatusOr<MachineTimes> EstimateForAnyPlan(const Hardware& hardware, const JobSetup& setup, int ranks,
                                                KernelSet& kernels) {
  JobOptions options = setup.options;
  options.checkpoint = "all";
  options.offload_activations = false;
  options.memory_budget_bytes = 0;
  // Its schedule calls every kernel that any plan does.
  ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> job, MakeJobPlan(setup.source.model, options, ranks, kernels));
  return EstimateTimes(hardware, job->schedule.kernels, ranks);
}

absl::StatusOr<std::shared_ptr<const MachineTimes>> TimesForPlan(const TrainConfiguration& configuration,
                                                                 const PlanRequest& request, const JobSetup& setup,
                                                                 int ranks, const MachineOptions& machine,
                                                                 KernelSet& kernels) {
  absl::StatusOr<MachineTimes> times = request.hardware.empty() ? Measured(configuration, setup, ranks, machine)
                                                                : Described(request.hardware, setup, ranks, kernels);
  RETURN_IF_ERROR(times.status());
  return std::make_shared<const MachineTimes>(*std::move(times));
}

}  // namespace reprise
