#include "runtime/train/step_profile.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/schedule/plan_bytes.h"

namespace reprise {
namespace {

KernelSpec SpecOf(const Graph& graph, int32_t node) {
  const Node& n = graph.nodes[static_cast<size_t>(node)];
  KernelSpec spec{n.operation, {}, {}, n.attributes};
  for (const ValueId v : n.inputs) spec.inputs.push_back(graph.type(v));
  for (const ValueId v : n.outputs) spec.outputs.push_back(graph.type(v));
  return spec;
}

// Sums kernels' times; remembers the first that the table lacks.
class KernelSum {
 public:
  explicit KernelSum(const TimeTable& table) : table_(table) {}

  int64_t Node(const Graph& graph, int32_t node) {
    const std::string spec = SpecOf(graph, node).ToString();
    const auto found = table_.kernel_ns.find(spec);
    if (found != table_.kernel_ns.end()) return found->second;
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("the times of this machine lack the kernel ", spec,
                                                        "; they belong to another model or version"));
    }
    return 0;
  }

  int64_t Of(const Graph& graph, const Routine& routine) {
    int64_t ns = 0;
    for (const int32_t node : routine.nodes) ns += Node(graph, node);
    return ns;
  }

  const absl::Status& status() const { return status_; }

 private:
  const TimeTable& table_;
  absl::Status status_;
};

int64_t Take(const TimeTable::OfSize& of_size, int64_t size) { return of_size ? of_size(size) : 0; }

// Of one that takes place: 0 would say that there is none.
int64_t TimeOfTransfer(const TimeTable::OfSize& of_size, int64_t size) {
  return std::max<int64_t>(Take(of_size, size), 1);
}

void FillRecomputeTimes(const ProgramGraph& graph, KernelSum* kernels, BlockProfile* block) {
  const Graph& g = graph.block.graph;
  block->recompute_through_ns = kernels->Of(g, graph.routines.recompute_through);
  for (OptionProfile& option : block->options) {
    if (option.keep == Keep::kEverything) option.recompute_ns = 0;
    if (option.keep == Keep::kBoundary) option.recompute_ns = kernels->Of(g, graph.routines.recompute);
    if (option.keep == Keep::kSet) {
      option.recompute_ns = kernels->Of(g, graph.saved_sets[static_cast<size_t>(option.set)].recompute);
    }
  }
}

// Forward, backward and update from a schedule of the step, with all that its instructions call beside the graphs'
// nodes (zeros for parameters without a gradient). Of several micro-batches the last counts.
void FillStepTimes(const Schedule& schedule, const InstructionTimes& times, Profile* profile) {
  bool update = false;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    update = update || instruction.kind == InstructionKind::kNorm;
    if (update) profile->update_ns += times.ns[i];
    if (instruction.block < 0) continue;
    BlockProfile& block = profile->blocks[static_cast<size_t>(instruction.block)];
    const bool forward = instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kHead;
    if (forward) block.forward_ns = times.ns[i];
    if (instruction.kind == InstructionKind::kBackward) block.backward_ns = times.ns[i];
  }
}

// The micro-batches behind the first begin with all gradients that these leave behind.
void CountGradientsAsState(Profile* profile) {
  for (BlockProfile& block : profile->blocks) {
    profile->state_bytes += block.gradient_left_bytes;
    block.gradient_left_bytes = 0;
  }
}

}  // namespace

TimeTable TableOf(const MachineTimes& times) {
  const auto of = [&times](Stream stream) -> TimeTable::OfSize {
    return [time = times.transfer[static_cast<size_t>(stream)]](int64_t bytes) { return time.Nanoseconds(bytes); };
  };
  TimeTable table;
  table.kernel_ns = times.kernel_ns;
  table.gather_ns = of(Stream::kGather);
  table.reduce_ns = of(Stream::kReduce);
  table.offload_ns = of(Stream::kOffload);
  table.reload_ns = of(Stream::kReload);
  table.update_ns = [rate = TransferTime{0, times.update_picoseconds_per_element}](int64_t elements) {
    return rate.Nanoseconds(elements);
  };
  table.sum_scalars_ns = times.scalars_ns;
  table.interference_millionths = times.interference_millionths;
  return table;
}

absl::StatusOr<Profile> MakeProfile(const UnitLayout& units, const CompileOptions& options,
                                    const ScratchBytes& scratch_bytes, const TimeTable& table, Program* program) {
  KernelSum kernels(table);
  ChooseSavedSets([&](const ProgramGraph& graph, int32_t node) { return kernels.Node(graph.block.graph, node); },
                  program);
  RETURN_IF_ERROR(kernels.status());
  Profile profile;
  RETURN_IF_ERROR(FillBytes(*program, units, options, scratch_bytes, &profile));
  if (options.accumulation > 1) CountGradientsAsState(&profile);
  profile.interference_millionths = table.interference_millionths;
  for (size_t b = 0; b < profile.blocks.size(); ++b) {
    BlockProfile& block = profile.blocks[b];
    FillRecomputeTimes(program->graph(b), &kernels, &block);
    const int32_t trained = GradientUnitOf(*program, units, b);
    for (const int32_t index : units.GroupOf(b).units()) {
      const int64_t elements = units.units[static_cast<size_t>(index)].whole_elements;
      block.gather_ns += TimeOfTransfer(table.gather_ns, elements * SizeOf(program->shape.dtype));
      if (index == trained) block.reduce_ns = TimeOfTransfer(table.reduce_ns, elements * 4);
    }
    block.offload_ns = Take(table.offload_ns, block.boundary_bytes);
    block.reload_ns = Take(table.reload_ns, block.boundary_bytes);
  }
  RETURN_IF_ERROR(kernels.status());
  Plan everything;
  everything.layers.resize(program->layer_count());
  ASSIGN_OR_RETURN(const Schedule schedule, Compile(*program, units, everything, options, scratch_bytes));
  ASSIGN_OR_RETURN(const InstructionTimes times, TimesFromTable(schedule, table));
  FillStepTimes(schedule, times, &profile);
  return profile;
}

}  // namespace reprise
