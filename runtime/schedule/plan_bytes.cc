#include "runtime/schedule/plan_bytes.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/status_macros.h"
#include "runtime/plan/layout.h"

namespace reprise {
namespace {

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, kItemAlignment); }

int64_t BytesOf(const Graph& graph, const std::vector<ValueId>& values) {
  int64_t bytes = 0;
  for (const ValueId v : values) bytes += Aligned(graph.type(v).bytes());
  return bytes;
}

// The boundary inputs of a graph that one of `routines` reads.
std::vector<ValueId> BoundaryRead(const Graph& graph, const std::vector<const Routine*>& routines) {
  const std::vector<bool> reads = BoundaryReads(graph, routines);
  std::vector<ValueId> values;
  for (size_t k = 0; k < reads.size(); ++k) {
    if (reads[k]) values.push_back(graph.Find(ValueRole::kBoundary, static_cast<int32_t>(k)));
  }
  return values;
}

// --- What graphs and units alone say
// ----------------------------------------------------------------------------------

void DescribeOptions(const ProgramGraph& graph, BlockProfile* block) {
  const Graph& g = graph.block.graph;
  block->options.resize(graph.saved_sets.size() + 2);
  const auto describe = [&](OptionProfile* option, const std::string& name, Keep keep, int32_t set, int64_t kept_bytes,
                            const std::vector<const Routine*>& routines) {
    option->name = name;
    option->keep = keep;
    option->set = set;
    option->kept_bytes = kept_bytes;
    option->reads_boundary = !BoundaryRead(g, routines).empty();
  };
  const BlockRoutines& r = graph.routines;
  describe(&block->options.front(), "everything", Keep::kEverything, -1, BytesOf(g, r.saved), {&r.backward});
  for (size_t s = 0; s < graph.saved_sets.size(); ++s) {
    const SavedSet& set = graph.saved_sets[s];
    describe(&block->options[s + 1], set.name, Keep::kSet, static_cast<int32_t>(s), BytesOf(g, set.values),
             {&r.backward, &set.recompute});
  }
  describe(&block->options.back(), "boundary", Keep::kBoundary, -1, 0, {&r.backward, &r.recompute});
}

// Of the gathered parameters of a block's group.
int64_t WholeBytes(const UnitLayout& units, size_t block, DType dtype) {
  int64_t bytes = 0;
  for (const int32_t unit : units.GroupOf(block).units()) {
    bytes += Aligned(units.units[static_cast<size_t>(unit)].whole_elements * SizeOf(dtype));
  }
  return bytes;
}

void Describe(const Program& program, const UnitLayout& units, const CompileOptions& options, Profile* profile) {
  profile->gathers = options.sharding == Sharding::kFull;
  profile->reduces = ReducesEachMicroBatch(options.sharding) || units.ranks > 1;
  profile->accumulation = options.accumulation;
  profile->first_backward = program.first_backward;
  profile->blocks.resize(program.blocks.size());
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    BlockProfile& block = profile->blocks[b];
    const ProgramGraph& graph = program.graph(b);
    const BlockRoutines& r = graph.routines;
    block.name = program.blocks[b].name;
    block.whole_bytes = profile->gathers ? WholeBytes(units, b, program.shape.dtype) : 0;
    block.boundary_bytes =
        BytesOf(graph.block.graph, BoundaryRead(graph.block.graph, {&r.recompute_through, &r.backward}));
    if (b == 0 || b + 1 == program.blocks.size()) continue;
    block.remade_bytes = BytesOf(graph.block.graph, r.saved) +
                         BytesOf(graph.block.graph, BoundaryRead(graph.block.graph, {&r.backward}));
    DescribeOptions(graph, &block);
  }
}

// --- What a compiled plan says
// ----------------------------------------------------------------------------------------

// Every layer a segment of its own with its option `index`, or its last one where it has fewer.
Plan OptionForAll(const Profile& profile, size_t index) {
  Plan plan;
  plan.prefetch = 0;
  for (int64_t i = 1; i <= profile.layer_count(); ++i) {
    const std::vector<OptionProfile>& options = profile.blocks[static_cast<size_t>(i)].options;
    const OptionProfile& option = options[profile.forward_only(i) ? 0 : std::min(index, options.size() - 1)];
    plan.layers.push_back({.keep = option.keep, .set = option.set});
  }
  return plan;
}

Plan OneSegment(const Profile& profile) {
  Plan plan;
  plan.prefetch = 0;
  for (int64_t layer = 1; layer <= profile.layer_count(); ++layer) {
    const bool first = layer == std::max<int64_t>(1, profile.first_backward);
    if (profile.forward_only(layer)) {
      plan.layers.emplace_back();
    } else {
      plan.layers.push_back({.keep = Keep::kBoundary, .starts_segment = first});
    }
  }
  return plan;
}

// A schedule of a plan without offload, prefetch and units that stay gathered: its live bytes step by step, of the last
// micro-batch.
class Probe {
 public:
  Probe(const Plan& plan, const Schedule& schedule, Profile* profile)
      : plan_(plan), schedule_(schedule), profile_(*profile), live_(LiveBytes(schedule)) {
    for (const Instruction& i : schedule.instructions) {
      if (i.stream == Stream::kCompute && i.block >= 0) steps_.push_back(&i);
    }
  }

  // Of each block, from the steps of the first micro-batch, which makes the buffers.
  void FillGradients() {
    const int64_t end = steps_.back()->last_tick;
    for (BlockProfile& block : profile_.blocks) block.gradient_held_bytes = block.gradient_left_bytes = 0;
    for (const Item& item : schedule_.items) {
      if (item.kind != ItemKind::kGradient) continue;
      const auto behind = std::upper_bound(steps_.begin(), steps_.end(), item.first,
                                           [](int64_t t, const Instruction* i) { return t < i->first_tick; });
      if (behind == steps_.begin()) continue;
      const Instruction& maker = **std::prev(behind);
      if (maker.micro_batch > 0 || !MakesGradients(maker)) continue;
      BlockProfile& block = profile_.blocks[static_cast<size_t>(maker.block)];
      if (item.last > end + 1) {
        block.gradient_left_bytes += Aligned(item.bytes);  // until the update
      } else if (behind != steps_.end() && item.last >= (*behind)->last_tick) {
        block.gradient_held_bytes += Aligned(item.bytes);
      }
    }
  }

  // Calls visit(instruction, option or null, own bytes by tick) for each step of the last micro-batch.
  template <typename Visit>
  void VisitOwnBytes(const Visit& visit) {
    const int32_t last = steps_.back()->micro_batch;
    std::vector<bool> begun(profile_.blocks.size(), false);
    SumLayers();
    int64_t begun_bytes = 0;
    int64_t gradients_left = 0;  // of the micro-batches before
    for (const BlockProfile& block : profile_.blocks) gradients_left += last > 0 ? block.gradient_left_bytes : 0;
    for (size_t s = 0; s < steps_.size(); ++s) {
      const Instruction& step = *steps_[s];
      if (step.micro_batch != last) continue;
      const auto b = static_cast<size_t>(step.block);
      const bool begins = step.kind == InstructionKind::kRecompute || step.kind == InstructionKind::kBackward;
      if (begins && !begun[b] && b > 0) begun_bytes += retained_[b] - retained_[b - 1];
      if (begins) begun[b] = true;
      int64_t apart = gradients_left + RetainedBytes(step) - begun_bytes + RemadeBytes(step);
      const bool has_parameters = step.kind != InstructionKind::kBackward || step.block > 0;
      if (has_parameters) apart += profile_.blocks[b].whole_bytes;
      if (s > 0 && MakesGradients(*steps_[s - 1])) apart += BlockOf(*steps_[s - 1]).gradient_held_bytes;
      std::vector<int64_t> own(live_.begin() + step.first_tick, live_.begin() + step.last_tick + 1);
      for (int64_t& bytes : own) bytes -= apart;
      visit(step, own);
      if (MakesGradients(step) && last == 0) gradients_left += BlockOf(step).gradient_left_bytes;
    }
  }

  const OptionProfile& OptionOf(size_t layer) const {
    const LayerPlan& plan = plan_.layers[layer - 1];
    const std::vector<OptionProfile>& options = profile_.blocks[layer].options;
    return plan.keep == Keep::kEverything ? options.front()
           : plan.keep == Keep::kBoundary ? options.back()
                                          : options[static_cast<size_t>(plan.set) + 1];
  }

 private:
  static bool MakesGradients(const Instruction& step) {
    return step.kind == InstructionKind::kBackward || step.kind == InstructionKind::kHead;
  }
  const BlockProfile& BlockOf(const Instruction& step) const {
    return profile_.blocks[static_cast<size_t>(step.block)];
  }
  bool StartsSegment(size_t layer) const { return plan_.layers[layer - 1].starts_segment; }

  // By layer, of it and all before it.
  void SumLayers() {
    retained_.assign(plan_.layers.size() + 1, 0);
    remade_ = retained_;
    segment_start_.assign(plan_.layers.size() + 1, 1);
    for (size_t layer = 1; layer <= plan_.layers.size(); ++layer) {
      const OptionProfile& option = OptionOf(layer);
      const BlockProfile& block = profile_.blocks[layer];
      retained_[layer] = retained_[layer - 1] + option.kept_bytes;
      // The boundary of a longer segment leaves this sum when its first layer is recomputed.
      if (StartsSegment(layer) && option.reads_boundary) retained_[layer] += block.boundary_bytes;
      remade_[layer] = remade_[layer - 1] + block.remade_bytes;
      segment_start_[layer] = layer == 1 || StartsSegment(layer) ? layer : segment_start_[layer - 1];
    }
  }

  // Of the layers whose forward is over.
  int64_t RetainedBytes(const Instruction& step) const {
    if (step.kind != InstructionKind::kForward) return retained_.back();
    return retained_[static_cast<size_t>(std::max(step.block - 1, 0))];
  }

  // Of the layers ahead in the step's own segment: they have been recomputed and wait.
  int64_t RemadeBytes(const Instruction& step) const {
    if (step.kind != InstructionKind::kRecompute && step.kind != InstructionKind::kBackward) return 0;
    if (step.block < 1) return 0;
    const auto layer = static_cast<size_t>(step.block);
    return remade_[layer - 1] - remade_[segment_start_[layer] - 1];
  }

  const Plan& plan_;
  const Schedule& schedule_;
  Profile& profile_;
  const std::vector<int64_t> live_;  // by tick
  std::vector<const Instruction*> steps_;
  std::vector<int64_t> retained_, remade_;  // by layer, from 1 on: sums up to it
  std::vector<size_t> segment_start_;       // by layer
};

// Not negative: of a boundary of several tensors a plan may retain less than boundary_bytes, of parameters that several
// blocks share less than the sum of their whole_bytes. What a plan takes then is known from its schedule alone.
int64_t Largest(const std::vector<int64_t>& values) {
  return std::max<int64_t>(0, *std::max_element(values.begin(), values.end()));
}

// A forward with the boundary before it gone once its last reader is over, and with it alive to the end. `own` has it
// as it is in the schedule at hand.
void FillForward(const ProgramGraph& graph, bool lives_on, std::vector<int64_t> own, OptionProfile* option) {
  const Graph& g = graph.block.graph;
  std::vector<int64_t> other = own;
  for (const ValueId id : BoundaryRead(g, {&graph.routines.recompute_through, &graph.routines.backward})) {
    size_t read_until = 0;  // calls: one a node
    for (size_t n = 0; n < static_cast<size_t>(graph.block.forward_nodes); ++n) {
      const std::vector<ValueId>& inputs = g.nodes[n].inputs;
      if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) read_until = n + 1;
    }
    const int64_t bytes = Aligned(g.type(id).bytes());
    for (size_t t = read_until; t < other.size(); ++t) other[t] += lives_on ? -bytes : bytes;
  }
  option->forward_bytes = Largest(lives_on ? own : other);
  option->forward_bytes_dropped = Largest(lives_on ? other : own);
}

void FillOptions(const Program& program, Probe* probe, Profile* profile) {
  probe->VisitOwnBytes([&](const Instruction& step, const std::vector<int64_t>& own) {
    const auto b = static_cast<size_t>(step.block);
    BlockProfile& block = profile->blocks[b];
    if (b == 0 || step.kind == InstructionKind::kHead) {
      (step.kind == InstructionKind::kBackward ? block.backward_bytes : block.forward_bytes) = Largest(own);
      return;
    }
    const auto index = static_cast<size_t>(&probe->OptionOf(b) - block.options.data());
    OptionProfile& option = block.options[index];
    if (step.kind == InstructionKind::kForward) FillForward(program.graph(b), option.reads_boundary, own, &option);
    if (step.kind == InstructionKind::kRecompute) option.recompute_bytes = Largest(own);
    if (step.kind == InstructionKind::kBackward) option.backward_bytes = Largest(own);
  });
}

// The last layer never makes its output again; its numbers are those of a layer with the same graph, if there is one.
void FillThrough(const Program& program, Probe* probe, Profile* profile) {
  const auto last = static_cast<size_t>(profile->layer_count());
  for (BlockProfile& block : profile->blocks) block.recompute_through_bytes = 0;
  probe->VisitOwnBytes([&](const Instruction& step, const std::vector<int64_t>& own) {
    const auto b = static_cast<size_t>(step.block);
    if (step.kind == InstructionKind::kRecompute && b < last) {
      profile->blocks[b].recompute_through_bytes = Largest(own);
      if (program.blocks[b].graph == program.blocks[last].graph) {
        profile->blocks[last].recompute_through_bytes = Largest(own);
      }
    }
  });
}

}  // namespace

std::vector<int64_t> LiveBytes(const Schedule& schedule) {
  const int64_t ticks = schedule.instructions.empty() ? 0 : schedule.instructions.back().last_tick + 2;
  std::vector<int64_t> live(static_cast<size_t>(ticks) + 1, 0);
  for (const Item& item : schedule.items) {
    if (item.persistent() || item.memory != Memory::kDevice || item.first < 0) continue;
    live[static_cast<size_t>(item.first)] += Aligned(item.bytes);
    live[static_cast<size_t>(item.last) + 1] -= Aligned(item.bytes);
  }
  for (size_t t = 1; t < live.size(); ++t) live[t] += live[t - 1];
  return live;
}

absl::Status FillBytes(const Program& program, const UnitLayout& units, const CompileOptions& options,
                       const ScratchBytes& scratch_bytes, Profile* profile) {
  Describe(program, units, options, profile);
  CompileOptions probed = options;
  probed.accumulation = std::min(options.accumulation, 2);  // later micro-batches repeat the second
  size_t most_options = 1;
  for (const BlockProfile& block : profile->blocks) most_options = std::max(most_options, block.options.size());
  for (size_t index = 0; index < most_options; ++index) {
    const Plan plan = OptionForAll(*profile, index);
    ASSIGN_OR_RETURN(const Schedule schedule, Compile(program, units, plan, probed, scratch_bytes));
    Probe probe(plan, schedule, profile);
    if (index == 0) probe.FillGradients();
    FillOptions(program, &probe, profile);
    if (index > 0) continue;
    profile->state_bytes = 0;
    for (const Item& item : schedule.items) profile->state_bytes += item.persistent() ? Aligned(item.bytes) : 0;
  }
  // Data of the micro-batches that were not compiled.
  for (const int64_t bytes : program.data_bytes) {
    profile->state_bytes += (options.accumulation - probed.accumulation) * Aligned(bytes);
  }
  const Plan plan = OneSegment(*profile);
  ASSIGN_OR_RETURN(const Schedule schedule, Compile(program, units, plan, probed, scratch_bytes));
  Probe probe(plan, schedule, profile);
  FillThrough(program, &probe, profile);
  return absl::OkStatus();
}

}  // namespace reprise
