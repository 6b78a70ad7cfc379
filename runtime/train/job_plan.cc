#include "runtime/train/job_plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/plan/by_hand.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/plan_cost.h"
#include "runtime/plan/planner.h"
#include "runtime/schedule/compiler.h"
#include "runtime/schedule/simulation.h"
#include "runtime/train/budget_plan.h"
#include "runtime/train/step_profile.h"

namespace reprise {
namespace {

int64_t BoundaryBytes(const Program& program) {
  int64_t bytes = 0;
  const Graph& embedding = program.graph(0).block.graph;
  for (const ValueId output : embedding.outputs) bytes += RoundUp(embedding.type(output).bytes(), kItemAlignment);
  return bytes;
}

// With the selective set of a layer, is the boundary before it read?
bool SelectiveReadsBoundary(const ProgramGraph& graph) {
  const int32_t set = graph.selective_set();
  if (set < 0) return false;
  const std::vector<bool>& reads = graph.saved_sets[static_cast<size_t>(set)].reads_boundary;
  return std::find(reads.begin(), reads.end(), true) != reads.end();
}

HandPlan HandPlanOf(const JobOptions& options, const Program& program) {
  HandPlan request{.policy = options.checkpoint,
                   .layers = static_cast<int64_t>(program.layer_count()),
                   .forward_only = std::max<int64_t>(program.first_backward - 1, 0),
                   .prefetch = options.prefetch,
                   .offload_activations = options.offload_activations,
                   .boundary_bytes = BoundaryBytes(program),
                   .host_budget_bytes = options.host_budget_bytes,
                   .selective = {}};
  for (size_t i = 0; i < program.layer_count(); ++i) {
    const ProgramGraph& graph = program.graph(i + 1);
    request.selective.push_back({graph.selective_set(), SelectiveReadsBoundary(graph)});
  }
  return request;
}

absl::Status CheckBudget(const JobPlan& job) {
  const int64_t budget = job.options.memory_budget_bytes;
  const int64_t needed = job.device_bytes();
  if (budget <= 0 || needed <= budget) return absl::OkStatus();
  std::string largest;
  const std::vector<int32_t> live = job.schedule.ItemsAtPeak();
  for (size_t i = 0; i < std::min<size_t>(live.size(), 3); ++i) {
    const Item& item = job.schedule.items[static_cast<size_t>(live[i])];
    absl::StrAppend(&largest, i == 0 ? "" : ", ", item.name, " ", FormatBytes(item.bytes));
  }
  return absl::ResourceExhaustedError(absl::StrCat("memory_budget=", budget, " bytes (", FormatBytes(budget),
                                                   ") does not hold the step of checkpoint=", job.options.checkpoint,
                                                   ", which needs ", needed, " bytes (", FormatBytes(needed),
                                                   ") per rank; largest: ", largest,
                                                   "; raise the budget to that, or choose a policy that keeps less"));
}

// Files and flags know parameters by their names.
absl::Status CheckNames(const Model& model, const UnitLayout& units) {
  std::set<std::string> names;
  for (const Unit& unit : units.units) {
    for (const UnitParameter& p : unit.parameters) {
      if (names.insert(p.parameter->name()).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("model ", model.name, " has two parameters with the name ",
                                                     p.parameter->name(), "; give their blocks different names"));
    }
  }
  return absl::OkStatus();
}

ScratchBytes ScratchOf(KernelSet& kernels) {
  return [&kernels](const KernelSpec& spec) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const Kernel* kernel, kernels.Get(spec));
    return kernel->scratch_bytes();
  };
}

// Makes the parts of a JobPlan, one after the other.
class Planning {
 public:
  Planning(JobPlan* job, KernelSet& kernels)
      : job_(*job),
        scratch_(ScratchOf(kernels)),
        compile_{job->options.sharding, job->options.accumulation, job->options.optimizer.states()} {}

  absl::Status TraceAndProfile(const Model& model, int ranks) {
    BatchShape shape{job_.options.micro_batch, job_.options.sequence_length, job_.options.dtype, /*training=*/true};
    job_.program = TraceModel(model, shape);
    job_.units = MakeUnits(job_.program, ranks);
    RETURN_IF_ERROR(CheckNames(model, job_.units));
    if (job_.options.evaluates) {
      shape.training = false;
      job_.evaluation_program = TraceModel(model, shape);
      REPRISE_CHECK(job_.evaluation_program.data_bytes == job_.program.data_bytes)
          << model.name << " reads other data of the batch in training than in evaluation";
    }
    if (job_.options.times == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(job_.profile,
                     MakeProfile(job_.units, compile_, scratch_, TableOf(*job_.options.times), &job_.program));
    return absl::OkStatus();
  }

  absl::Status ChoosePlan() {
    if (job_.options.plan.has_value()) {
      job_.plan = *job_.options.plan;
      return absl::OkStatus();
    }
    if (job_.options.checkpoint == "auto") return PlanFromBudget();
    const PeakOf peak_of = [this](const Plan& plan) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const Schedule schedule, CompileShort(plan));
      return schedule.device_bytes;
    };
    ASSIGN_OR_RETURN(job_.plan, ByHand(HandPlanOf(job_.options, job_.program), peak_of));
    return absl::OkStatus();
  }

  absl::Status CompileSchedules() {
    ASSIGN_OR_RETURN(job_.schedule, Compile(job_.program, job_.units, job_.plan, compile_, scratch_));
    if (job_.options.evaluates) {
      ASSIGN_OR_RETURN(job_.evaluation_schedule,
                       Compile(job_.evaluation_program, job_.units, job_.plan, compile_, scratch_));
    }
    return CheckBudget(job_);
  }

  absl::Status Estimate() {
    if (job_.options.times == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const InstructionTimes times, TimesFromTable(job_.schedule, TableOf(*job_.options.times)));
    ASSIGN_OR_RETURN(const Simulation simulation, Simulate(job_.schedule, times, {.ranks = 1}));
    ASSIGN_OR_RETURN(const PlanCost cost, CostOf(*job_.profile, job_.plan));
    if (!job_.estimate.has_value()) job_.estimate.emplace();
    job_.estimate->step_ns = simulation.makespan_ns;
    job_.estimate->class_ns = cost.time_ns;
    return absl::OkStatus();
  }

  PlanLimits Limits() const {
    const JobOptions& o = job_.options;
    PlanLimits limits;
    if (o.memory_budget_bytes > 0) limits.memory_budget_bytes = o.memory_budget_bytes;
    if (o.host_budget_bytes >= 0) limits.host_budget_bytes = o.host_budget_bytes;
    limits.offloads = o.offload_activations;
    limits.stays_gathered = o.sharding == Sharding::kFull;
    limits.smallest_prefetch = limits.largest_prefetch = o.prefetch;
    // One unit ahead is what stands there when nobody said how many.
    if (o.sharding == Sharding::kFull && o.prefetch == 1) {
      limits.smallest_prefetch = 0;
      limits.largest_prefetch = kMostPrefetch;
    }
    return limits;
  }

  // Device memory of training with this plan, evaluation included.
  ArenaBytes Arena() const {
    return [this](const Plan& plan) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const Schedule schedule, CompileShort(plan));
      if (!job_.options.evaluates) return schedule.device_bytes;
      ASSIGN_OR_RETURN(const Schedule evaluation,
                       Compile(job_.evaluation_program, job_.units, plan, compile_, scratch_));
      return std::max(schedule.device_bytes, evaluation.device_bytes);
    };
  }

 private:
  static constexpr int kMostPrefetch = 3;

  // Micro-batches behind the second repeat its memory.
  absl::StatusOr<Schedule> CompileShort(const Plan& plan) const {
    CompileOptions options = compile_;
    options.accumulation = std::min(options.accumulation, 2);
    return Compile(job_.program, job_.units, plan, options, scratch_);
  }

  absl::Status PlanFromBudget() {
    if (!job_.profile.has_value()) {
      return absl::InvalidArgumentError("checkpoint=auto needs the times of a machine; give JobOptions::times");
    }
    if (job_.options.memory_budget_bytes <= 0) {
      return absl::InvalidArgumentError("checkpoint=auto needs a memory budget; give memory_budget=2GiB or the like");
    }
    ASSIGN_OR_RETURN(BudgetPlan best, PlanForBudget(*job_.profile, Limits(), Arena()));
    job_.plan = std::move(best.solution.plan);
    job_.plan.policy = job_.options.checkpoint;
    job_.estimate = {.bound_ns = best.solution.bound_ns, .plans_tried = best.plans_tried};
    return absl::OkStatus();
  }

  JobPlan& job_;
  const ScratchBytes scratch_;
  const CompileOptions compile_;
};

}  // namespace

int64_t JobPlan::device_bytes() const { return std::max(schedule.device_bytes, evaluation_schedule.device_bytes); }

absl::StatusOr<std::unique_ptr<JobPlan>> MakeJobPlan(const Model& model, const JobOptions& options, int ranks,
                                                     KernelSet& kernels) {
  auto job = std::make_unique<JobPlan>();
  job->options = options;
  Planning planning(job.get(), kernels);
  RETURN_IF_ERROR(planning.TraceAndProfile(model, ranks));
  RETURN_IF_ERROR(planning.ChoosePlan());
  RETURN_IF_ERROR(planning.CompileSchedules());
  RETURN_IF_ERROR(planning.Estimate());
  return job;
}

absl::StatusOr<SmallestBudgets> FindSmallestBudgets(const JobPlan& job, KernelSet& kernels) {
  REPRISE_CHECK(job.profile.has_value()) << "the job's times are not known";
  JobPlan copy = job;
  const Planning planning(&copy, kernels);
  PlanLimits limits = planning.Limits();
  limits.offloads = false;
  ASSIGN_OR_RETURN(const SmallestBudgetFound resident, SmallestArena(*job.profile, limits, planning.Arena()));
  limits.offloads = true;
  ASSIGN_OR_RETURN(const SmallestBudgetFound offloaded,
                   SmallestArena(*job.profile, limits, planning.Arena(), resident));
  return SmallestBudgets{.resident = resident.bytes,
                         .offloaded = offloaded.bytes,
                         .resident_proven = resident.proven,
                         .offloaded_proven = offloaded.proven};
}

absl::StatusOr<bool> HoldsSomePlan(const JobPlan& job, int64_t memory_budget_bytes, bool offloads, KernelSet& kernels) {
  REPRISE_CHECK(job.profile.has_value()) << "the job's times are not known";
  JobPlan copy = job;
  const Planning planning(&copy, kernels);
  PlanLimits limits = planning.Limits();
  limits.memory_budget_bytes = memory_budget_bytes;
  limits.offloads = offloads;
  return BudgetHolds(*job.profile, limits, planning.Arena());
}

}  // namespace reprise
