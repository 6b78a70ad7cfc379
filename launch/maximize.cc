#include "launch/maximize.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "launch/job_setup.h"
#include "launch/machine_choice.h"
#include "runtime/plan/hardware.h"
#include "runtime/train/job_plan.h"

namespace reprise {
namespace {

constexpr int64_t kMost = int64_t{1} << 20;
constexpr int64_t kMostPixels = 1 << 14;  // of a side

// Some machine: which plan is fastest does not matter here, only whether there is one.
Hardware SomeMachine() {
  return {.name = "some machine",
          .compute_fp32 = 1e12,
          .compute_bf16 = 2e12,
          .memory = 1e11,
          .kernel_latency = 1e-6,
          .link = 1e10,
          .network = 1e10,
          .link_latency = 1e-5,
          .host = 1e10,
          .disk = 1e9,
          .device_memory = 1e12,
          .ranks_per_host = 8};
}

// Whether the budget holds the leanest plan: the fastest is not asked for.
absl::StatusOr<bool> FitsSomePlan(const JobSetup& setup, int ranks, KernelSet& kernels) {
  ASSIGN_OR_RETURN(MachineTimes times, EstimateForAnyPlan(SomeMachine(), setup, ranks, kernels));
  JobOptions probe = setup.options;
  probe.checkpoint = "all";
  probe.offload_activations = false;
  probe.memory_budget_bytes = 0;
  probe.times = std::make_shared<const MachineTimes>(std::move(times));
  ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> job, MakeJobPlan(setup.source.model, probe, ranks, kernels));
  return HoldsSomePlan(*job, setup.options.memory_budget_bytes, setup.options.offload_activations, kernels);
}

absl::StatusOr<bool> Fits(const TrainConfiguration& configuration, int ranks, KernelSet& kernels) {
  ASSIGN_OR_RETURN(const JobSetup setup, MakeJobSetup(PosixStorage(), configuration));
  if (setup.options.checkpoint == "auto") return FitsSomePlan(setup, ranks, kernels);
  const absl::Status status = MakeJobPlan(setup.source.model, setup.options, ranks, kernels).status();
  if (status.ok()) return true;
  if (status.code() == absl::StatusCode::kResourceExhausted) return false;
  return status;
}

// What `what` grows by: an image by whole patches.
absl::StatusOr<int64_t> StepOf(const std::string& what, const TrainConfiguration& configuration) {
  if (what != "image_size") return 1;
  ASSIGN_OR_RETURN(const JobSetup setup, MakeJobSetup(PosixStorage(), configuration));
  if (setup.source.model.images.has_value()) return setup.source.model.images->patch;
  return absl::InvalidArgumentError(absl::StrCat("--maximize=image_size needs a model that reads images, not ",
                                                 setup.source.model.name, "; use --model=vit"));
}

// Beyond what the model allows nothing fits: the longest sequence of its position table.
absl::StatusOr<int64_t> HighestAllowed(const std::string& what, const TrainConfiguration& configuration) {
  if (what == "image_size") return kMostPixels;
  if (what != "sequence_length") return kMost;
  TrainConfiguration short_one = configuration;
  short_one.sequence_length = 0;
  ASSIGN_OR_RETURN(const JobSetup setup, MakeJobSetup(PosixStorage(), short_one));
  if (setup.source.model.sequence_length > 0) {
    return absl::InvalidArgumentError(absl::StrCat("--maximize=sequence_length: ", setup.source.model.name,
                                                   " has as many rows as its images have patches; use image_size"));
  }
  return setup.source.model.maximum_sequence > 0 ? std::min(setup.source.model.maximum_sequence, kMost) : kMost;
}

}  // namespace

absl::StatusOr<TrainConfiguration> WithValue(const TrainConfiguration& configuration, const std::string& what,
                                             int64_t value) {
  TrainConfiguration changed = configuration;
  if (what == "micro_batch") changed.micro_batch = {.sequences = value};
  if (what == "sequence_length") changed.sequence_length = value;
  if (what == "image_size") changed.image_size = value;
  if (what == "n_layer") {
    if (!configuration.model_config.empty() && configuration.model_config.find('=') == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--maximize=n_layer needs --model_config=key=value,..., not the file ",
                       configuration.model_config, "; write its keys out"));
    }
    const std::string key = configuration.model == "gpt2" ? "n_layer" : "num_hidden_layers";
    std::vector<std::string> settings;
    for (const absl::string_view setting : absl::StrSplit(configuration.model_config, ',', absl::SkipEmpty())) {
      if (setting.substr(0, setting.find('=')) != key) settings.emplace_back(setting);
    }
    settings.push_back(absl::StrCat(key, "=", value));
    changed.model_config = absl::StrJoin(settings, ",");
  }
  return changed;
}

absl::StatusOr<int64_t> Maximize(const std::string& what, const TrainConfiguration& configuration, int ranks,
                                 KernelSet& kernels, int64_t most) {
  ASSIGN_OR_RETURN(int64_t highest, HighestAllowed(what, configuration));
  if (most > 0) highest = std::min(highest, most);
  ASSIGN_OR_RETURN(const int64_t step, StepOf(what, configuration));
  highest /= step;
  const auto fits = [&](int64_t steps) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const TrainConfiguration changed, WithValue(configuration, what, steps * step));
    return Fits(changed, ranks, kernels);
  };
  int64_t low = 0;  // fits, where above 0
  int64_t high = 1;
  while (high <= highest) {
    ASSIGN_OR_RETURN(const bool ok, fits(high));
    if (!ok) break;
    low = high;
    if (high == highest) return highest * step;
    high = std::min(high * 2, highest);
  }
  if (low == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("memory_budget=", configuration.memory_budget.bytes,
                                                     " bytes does not hold even ", what, "=", step,
                                                     "; raise the budget"));
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const bool ok, fits(middle));
    (ok ? low : high) = middle;
  }
  return low * step;
}

}  // namespace reprise
