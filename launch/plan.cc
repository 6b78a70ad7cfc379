#include "launch/plan.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/affinity.h"
#include "launch/device_choice.h"
#include "launch/exit_code.h"
#include "launch/hardware_file.h"
#include "launch/job_setup.h"
#include "launch/machine_choice.h"
#include "launch/maximize.h"
#include "launch/output_paths.h"
#include "launch/plan_text.h"
#include "launch/plan_trace.h"
#include "launch/plugins.h"
#include "launch/profile_text.h"
#include "runtime/plan/profile_json.h"
#include "runtime/tensor/kernel_set.h"
#include "runtime/train/training_job.h"

namespace reprise {
namespace {

constexpr int64_t kMostProfileBytes = int64_t{256} << 20;

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

PlanLimits LimitsOf(const TrainConfiguration& c, const Profile& profile) {
  PlanLimits limits;
  if (c.memory_budget.bytes > 0) limits.memory_budget_bytes = c.memory_budget.bytes;
  if (c.host_budget.bytes > 0) limits.host_budget_bytes = c.host_budget.bytes;
  limits.offloads = c.offload_activations;
  limits.stays_gathered = profile.gathers;
  if (profile.gathers) {
    limits.smallest_prefetch = 0;
    limits.largest_prefetch = 3;
  }
  return limits;
}

constexpr char kMachinePart[] = "; ";  // of a profile's description, behind the job

// Flags of the job beside --profile may only say what the profile is of.
absl::Status CheckSameJob(const TrainConfiguration& c, const PlanRequest& request, const Profile& profile) {
  const TrainConfiguration defaults;
  const bool says = !c.model_config.empty() || !c.init.empty() || !c.adapter.empty() || c.model != defaults.model ||
                    c.micro_batch != defaults.micro_batch || c.sequence_length != defaults.sequence_length ||
                    c.image_size != defaults.image_size || c.accumulation != defaults.accumulation ||
                    c.precision != defaults.precision || c.sharding != defaults.sharding ||
                    c.optimizer != defaults.optimizer || c.dropout != defaults.dropout;
  if (!says) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JobSetup setup, MakeJobSetup(PosixStorage(), c));
  const std::string asked = DescribeJob(setup);
  const std::string saved = profile.description.substr(0, profile.description.find(kMachinePart));
  if (asked == saved) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--profile=", request.profile, " is of another job (", saved,
                                                 ") than the flags (", asked,
                                                 "); leave those of the job out, or save its profile"));
}

absl::StatusOr<Profile> ReadProfile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(PosixStorage(), path, kMostProfileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat("--profile: ", text.status().message()));
  absl::StatusOr<Profile> profile = ProfileFromJson(*text);
  if (profile.ok()) return profile;
  return absl::InvalidArgumentError(absl::StrCat("--profile=", path, ": ", profile.status().message(),
                                                 "; mend it, or save it again with --save_profile"));
}

absl::Status PlanSavedProfile(const TrainConfiguration& configuration, const PlanRequest& request) {
  ASSIGN_OR_RETURN(const Profile profile, ReadProfile(request.profile));
  RETURN_IF_ERROR(CheckSameJob(configuration, request, profile));
  const PlanLimits limits = LimitsOf(configuration, profile);
  ASSIGN_OR_RETURN(const Solution solution, Solve(profile, limits));
  ASSIGN_OR_RETURN(const int64_t smallest, SmallestBudget(profile, limits));
  const std::string out =
      request.json ? SolutionJson(profile, solution, smallest) : SolutionText(profile, solution, smallest);
  std::fputs(out.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status CheckOutputs(const TrainConfiguration& configuration, const PlanRequest& request) {
  std::vector<FlagPath> inputs = InputPathsOf(configuration);
  if (!request.hardware.empty()) {
    ASSIGN_OR_RETURN(std::string path, HardwarePath(request.hardware));
    inputs.push_back({"--hardware", std::move(path)});
  }
  return CheckOutputPaths({{"--trace", configuration.trace}, {"--save_profile", request.save_profile}}, inputs);
}

// Null where there is no path.
absl::StatusOr<std::unique_ptr<AtomicFile>> OpenOutput(const std::string& path) {
  if (path.empty()) return nullptr;
  return PosixStorage().Create(path);
}

absl::Status Write(AtomicFile& file, absl::string_view text) {
  RETURN_IF_ERROR(file.Append({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return file.Finish();
}

absl::Status WriteTrace(const JobPlan& job, AtomicFile& file) {
  ASSIGN_OR_RETURN(const std::string text, SimulatedTrace(job));
  return Write(file, text);
}

absl::Status PlanModel(const TrainConfiguration& asked, const PlanRequest& request) {
  RETURN_IF_ERROR(CheckOutputs(asked, request));
  ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> trace, OpenOutput(asked.trace));
  ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> saved, OpenOutput(request.save_profile));
  const int ranks = request.world_size > 0 ? static_cast<int>(request.world_size) : LauncherRanks();
  // Scratch of some kernels depends on the number of threads.
  int threads = static_cast<int>(asked.threads);
  if (threads == 0) threads = request.hardware.empty() ? CoresForRank(0, ranks).cores : 1;
  // A machine that is described may be of any kind: what its kernels take beside their results is taken to be a cpu's.
  MachineOptions machine{.threads = threads, .deadline_seconds = asked.deadline};
  if (request.hardware.empty()) {
    ASSIGN_OR_RETURN(machine.device, ChosenDevice(asked));
  }
  ASSIGN_OR_RETURN(const KernelOptions kernel_options, KernelsOf(machine));
  KernelSet kernels(kernel_options);
  TrainConfiguration configuration = asked;
  const std::string maximized = asked.micro_batch.automatic ? "micro_batch" : request.maximize;
  if (!maximized.empty()) {
    ASSIGN_OR_RETURN(const int64_t largest, Maximize(maximized, asked, ranks, kernels));
    ASSIGN_OR_RETURN(configuration, WithValue(asked, maximized, largest));
    if (!request.json) std::printf("largest %s that fits: %lld\n", maximized.c_str(), static_cast<long long>(largest));
  }
  ASSIGN_OR_RETURN(JobSetup setup, MakeJobSetup(PosixStorage(), configuration));
  ASSIGN_OR_RETURN(setup.options.times, TimesForPlan(configuration, request, setup, ranks, machine, kernels));
  ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> job, MakeJobPlan(setup.source.model, setup.options, ranks, kernels));
  ASSIGN_OR_RETURN(const SmallestBudgets smallest, FindSmallestBudgets(*job, kernels));
  if (saved != nullptr) {
    Profile profile = *job->profile;
    profile.description = absl::StrCat(DescribeJob(setup), kMachinePart, ranks, " ranks on ",
                                       request.hardware.empty() ? "the machine at hand" : request.hardware);
    RETURN_IF_ERROR(Write(*saved, ProfileToJson(profile)));
  }
  const std::string out = request.json
                              ? PlanJson(*job, smallest)
                              : absl::StrCat(PlanText(*job), EstimateText(*job), SmallestBudgetsText(*job, smallest));
  std::fputs(out.c_str(), stdout);
  return trace == nullptr ? absl::OkStatus() : WriteTrace(*job, *trace);
}

}  // namespace

int PlanMain(const TrainConfiguration& configuration, const PlanRequest& request) {
  if (!IsFirstProcess()) return kExitDone;
  absl::Status status = LoadPlugins(configuration.plugin).status();
  if (status.ok()) {
    status = request.profile.empty() ? PlanModel(configuration, request) : PlanSavedProfile(configuration, request);
  }
  if (!status.ok()) PrintError(status);
  return ExitCodeFor(status);
}

}  // namespace reprise
