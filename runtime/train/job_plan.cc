#include "runtime/train/job_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "runtime/plan/by_hand.h"
#include "runtime/plan/layout.h"
#include "runtime/schedule/compiler.h"

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

}  // namespace

int64_t JobPlan::device_bytes() const { return std::max(schedule.device_bytes, evaluation_schedule.device_bytes); }

absl::StatusOr<std::unique_ptr<JobPlan>> MakeJobPlan(const Model& model, const JobOptions& options, int ranks,
                                                     KernelSet& kernels) {
  auto job = std::make_unique<JobPlan>();
  job->options = options;
  BatchShape shape{options.micro_batch, options.sequence_length, options.dtype, /*training=*/true};
  job->program = TraceModel(model, shape);
  job->units = MakeUnits(job->program, ranks);
  const ScratchBytes scratch = [&](const KernelSpec& spec) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const Kernel* kernel, kernels.Get(spec));
    return kernel->scratch_bytes();
  };
  CompileOptions compile{options.sharding, options.accumulation, options.optimizer.states()};
  const PeakOf peak_of = [&](const Plan& plan) -> absl::StatusOr<int64_t> {
    // Micro-batches behind the second repeat its memory.
    CompileOptions probe = compile;
    probe.accumulation = std::min(probe.accumulation, 2);
    ASSIGN_OR_RETURN(const Schedule schedule, Compile(job->program, job->units, plan, probe, scratch));
    return schedule.device_bytes;
  };
  if (options.plan.has_value()) {
    job->plan = *options.plan;
  } else {
    ASSIGN_OR_RETURN(job->plan, ByHand(HandPlanOf(job->options, job->program), peak_of));
  }
  ASSIGN_OR_RETURN(job->schedule, Compile(job->program, job->units, job->plan, compile, scratch));
  if (options.evaluates) {
    shape.training = false;
    job->evaluation_program = TraceModel(model, shape);
    ASSIGN_OR_RETURN(job->evaluation_schedule,
                     Compile(job->evaluation_program, job->units, job->plan, compile, scratch));
  }
  RETURN_IF_ERROR(CheckBudget(*job));
  return job;
}

}  // namespace reprise
