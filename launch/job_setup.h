// From a configuration to what a job is made of: the same for `train` and `plan`.
#ifndef REPRISE_LAUNCH_JOB_SETUP_H_
#define REPRISE_LAUNCH_JOB_SETUP_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launch/configuration.h"
#include "models/registry.h"
#include "runtime/snapshot/adapter_config.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/job_plan.h"

namespace reprise {

struct JobSetup {
  ModelSource source;
  std::optional<AdapterConfig> adapter;  // of the model's low-rank adapters, where it has any
  JobOptions options;
};

// The model comes from --model_config, else from the config.json of --init, else it is the model's default.
absl::StatusOr<JobSetup> MakeJobSetup(Storage& storage, const TrainConfiguration& configuration);

// What a profile is of, machine and ranks aside: two jobs of one text have the same blocks, bytes and kernels.
std::string DescribeJob(const JobSetup& setup);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_JOB_SETUP_H_
