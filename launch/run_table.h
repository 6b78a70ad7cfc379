// What a run was and how it went: the first line of its metrics, and the table at its end.
#ifndef REPRISE_LAUNCH_RUN_TABLE_H_
#define REPRISE_LAUNCH_RUN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "launch/configuration.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/json_object.h"
#include "runtime/train/metrics.h"
#include "runtime/train/training_job.h"

namespace reprise {

// Resolved configuration, ranks, hosts, threads, device, versions, plan with its blocks, and what was warned of when
// the run began.
JsonObject RunObject(const TrainConfiguration& configuration, const JobPlan& job, const Communicator& communicator,
                     const MachineOptions& machine, const std::vector<std::string>& warnings);

// What the same job would take with checkpoint=none; 0 where that cannot be said.
int64_t UncheckpointedPeak(const Model& model, JobOptions options, int ranks, const MachineOptions& machine);

// Gathers the steps of a run.
class RunTable {
 public:
  void Add(const StepMetrics& metrics);
  // `uncheckpointed_peak_bytes`: peak of the same job with checkpoint=none; 0: not known. `bytes_beside_arena`: see
  // Device.
  std::string Text(const JobPlan& job, int64_t uncheckpointed_peak_bytes, int64_t bytes_beside_arena) const;

 private:
  StepMetrics first_, last_;
  std::vector<double> step_seconds_;
  double seconds_ = 0;
  double exposed_communication_ = 0, exposed_transfer_ = 0;
  std::optional<double> validation_loss_;
};

}  // namespace reprise

#endif  // REPRISE_LAUNCH_RUN_TABLE_H_
