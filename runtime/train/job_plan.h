// JobPlan: everything about a training job that is known before memory is taken: program, units, plan, schedules.
//
//   KernelSet kernels({.threads = 2});
//   ASSIGN_OR_RETURN(auto plan, MakeJobPlan(Gpt2(config), options, /*ranks=*/2, kernels));
//   plan->device_bytes();   // the arena each rank will take
#ifndef REPRISE_RUNTIME_TRAIN_JOB_PLAN_H_
#define REPRISE_RUNTIME_TRAIN_JOB_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/plan/machine_times.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/profile.h"
#include "runtime/schedule/optimizer_settings.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/kernel_set.h"

namespace reprise {

struct JobOptions {
  int64_t micro_batch = 1;        // sequences per rank
  int64_t sequence_length = 1;    // tokens
  int accumulation = 1;           // micro-batches a step
  DType dtype = DType::kFloat32;  // kFloat32 or kBFloat16: of activations and gathered parameters
  Sharding sharding = Sharding::kFull;
  std::string checkpoint = "none";
  bool offload_activations = false;
  int prefetch = 1;
  std::optional<Plan> plan;         // in place of checkpoint, offload_activations and prefetch: a planner's
  int64_t memory_budget_bytes = 0;  // of device memory, per rank; 0: no cap
  int64_t host_budget_bytes = -1;   // -1: no cap
  OptimizerSettings optimizer;
  // Needed by checkpoint=auto; with them any plan's step time is predicted. TrainingJob measures where they lack.
  std::shared_ptr<const MachineTimes> times = nullptr;
  bool evaluates = false;  // whether a forward-only schedule is wanted, too
};

// What is predicted of a step's time, where the machine's times are known.
struct StepEstimate {
  int64_t step_ns = 0;      // of the compiled schedule, simulated without jitter
  int64_t class_ns = 0;     // of the plan by the rules of docs/plan_profile.md, as the planner compares it
  int64_t bound_ns = 0;     // auto: no plan of the class that fits the budget takes less; 0: by hand
  int64_t plans_tried = 0;  // auto: until one's arena fitted
};

struct JobPlan {
  JobOptions options;
  Program program;
  UnitLayout units;
  Plan plan;
  Schedule schedule;
  Program evaluation_program;  // empty without options.evaluates
  Schedule evaluation_schedule;
  std::optional<Profile> profile;        // with options.times
  std::optional<StepEstimate> estimate;  // with options.times

  int64_t device_bytes() const;  // the larger of both schedules
  int64_t host_bytes() const { return schedule.host_bytes; }
};

// InvalidArgument for a policy that is not known, or a plan of another model; ResourceExhausted, with the largest items
// and the smallest budget that would do, where the plan does not fit the memory budget.
absl::StatusOr<std::unique_ptr<JobPlan>> MakeJobPlan(const Model& model, const JobOptions& options, int ranks,
                                                     KernelSet& kernels);

// Of a job whose times are known: the smallest memory budget that --checkpoint=auto takes, with and without offloading
// boundaries. Compiles some dozens of plans. Not proven: a smaller one may do (SmallestArena).
struct SmallestBudgets {
  int64_t resident = 0;
  int64_t offloaded = 0;
  bool resident_proven = true;
  bool offloaded_proven = true;
};
absl::StatusOr<SmallestBudgets> FindSmallestBudgets(const JobPlan& job, KernelSet& kernels);

// Likewise: whether --checkpoint=auto finds a plan within this memory budget, without looking for the fastest.
absl::StatusOr<bool> HoldsSomePlan(const JobPlan& job, int64_t memory_budget_bytes, bool offloads, KernelSet& kernels);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_JOB_PLAN_H_
