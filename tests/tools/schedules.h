// Schedules of a small GPT-2 (tests/fixtures/gpt2), and running any schedule, right or wrong, on ranks that are
// threads.
//
//   const SmallJob job({.checkpoint = "all", .offload_activations = true}, /*ranks=*/2);
//   ScheduleRunner runner(job.plan(), 2);
//   RunOutcome outcome = runner.Run(job.schedule(), {.random = true, .seed = 7});
#ifndef REPRISE_TESTS_TOOLS_SCHEDULES_H_
#define REPRISE_TESTS_TOOLS_SCHEDULES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "device/device.h"
#include "models/registry.h"
#include "runtime/train/job_plan.h"

namespace reprise::testing {

// A plan of the model of a fixture folder; micro-batches of 2 sequences of 8 tokens unless `options` say otherwise.
class SmallJob {
 public:
  explicit SmallJob(JobOptions options, int ranks = 2, const std::string& fixture = "gpt2",
                    const std::string& device = "cpu");

  const JobPlan& plan() const { return *plan_; }
  const Schedule& schedule() const { return plan_->schedule; }
  int layers() const { return static_cast<int>(plan_->program.layer_count()); }

 private:
  ModelSource source_;
  KernelSet kernels_;
  std::unique_ptr<JobPlan> plan_;
};

struct RunOutcome {
  absl::Status status;  // the first that is not OK, in rank order
  std::string bits;     // loss, norm, gradients, parameters of all ranks; empty where the status is not OK

  bool operator==(const RunOutcome& other) const { return status == other.status && bits == other.bits; }
};

// Runs one training step of schedules that share the items of `plan`, on fresh memory each time. On `cuda` the stand-in
// for CUDA's runtime draws the order of streams.
class ScheduleRunner {
 public:
  ScheduleRunner(const JobPlan& plan, int ranks, const std::string& device = "cpu");
  RunOutcome Run(const Schedule& schedule, const StreamOrder& order);

 private:
  RunOutcome RunRank(const Schedule& schedule, const StreamOrder& order, Communicator& communicator);

  const JobPlan& plan_;
  const int ranks_;
  const std::string device_;
  std::vector<std::unique_ptr<KernelSet>> kernels_;  // by rank
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_SCHEDULES_H_
