#include "runtime/schedule/compiler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/plan/layout.h"
#include "runtime/schedule/compute_order.h"
#include "runtime/schedule/ordering.h"
#include "runtime/schedule/state_items.h"

namespace reprise {
namespace {

constexpr int64_t kFloatBytes = 4;
// Block instructions after which memory that an asynchronous copy or reduction still reads may be taken again.
constexpr int kLagBlocks = 1;

using ValueItems = std::map<ValueId, Operand>;

class Compiler {
 public:
  Compiler(const Program& program, const UnitLayout& units, const Plan& plan, const CompileOptions& options,
           const ScratchBytes& scratch_bytes)
      : program_(program), units_(units), plan_(plan), options_(options), scratch_bytes_(scratch_bytes) {}

  absl::StatusOr<Schedule> Run() {
    const bool training = program_.shape.training;
    AddStateItems(units_, options_.sharding, program_.shape.dtype, options_.optimizer_states,
                  training ? options_.accumulation : 1, program_.shape.sequences * program_.shape.sequence_length,
                  &schedule_);
    order_ = training ? TrainingOrder(plan_, options_.accumulation)
                      : EvaluationOrder(static_cast<int32_t>(program_.layer_count()));
    boundary_.resize(program_.blocks.size() + 1);
    boundary_gradient_.resize(program_.blocks.size() + 1);
    saved_.resize(program_.blocks.size());
    host_.resize(program_.blocks.size());
    gradient_whole_.assign(units_.units.size(), {});
    gradient_shard_.assign(units_.units.size(), {});
    gathered_.assign(units_.units.size(), {});
    PlanGathers();
    for (size_t i = 0; i < order_.size(); ++i) RETURN_IF_ERROR(EmitStep(i));
    if (training) RETURN_IF_ERROR(EmitUpdate());
    AssignMemory();
    AssignWaits(&schedule_);
    return std::move(schedule_);
  }

 private:
  // --- Items and instructions -----------------------------------------------------------------------------------

  int32_t AddItem(std::string name, int64_t bytes, ItemKind kind, Memory memory = Memory::kDevice) {
    schedule_.items.push_back({.name = std::move(name), .bytes = bytes, .kind = kind, .memory = memory});
    return static_cast<int32_t>(schedule_.items.size() - 1);
  }

  Instruction& Begin(InstructionKind kind, Stream stream) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.stream = stream;
    instruction.first_tick = next_tick_;
    schedule_.instructions.push_back(std::move(instruction));
    return schedule_.instructions.back();
  }

  // Every instruction but one with calls is one tick.
  void End() {
    Instruction& instruction = schedule_.instructions.back();
    if (instruction.calls.empty()) ++next_tick_;
    instruction.last_tick = next_tick_ - 1;
  }

  void Touch(const Operand& operand, bool write) {
    if (operand.item < 0) return;
    Item& item = schedule_.items[static_cast<size_t>(operand.item)];
    if (item.first < 0) item.first = next_tick_;
    item.last = next_tick_;
    std::vector<Access>& accesses = schedule_.instructions.back().accesses;
    const auto found =
        std::find_if(accesses.begin(), accesses.end(), [&](const Access& a) { return a.item == operand.item; });
    if (found == accesses.end()) {
      accesses.push_back({operand.item, write});
    } else {
      found->write = found->write || write;
    }
  }

  // Keeps `item` alive until the end of the block instruction `kLagBlocks` later.
  void HoldForLag(int32_t item) { holds_.emplace_back(item, kLagBlocks); }

  void EndBlockInstruction() {
    End();
    for (auto& [item, blocks_left] : holds_) {
      --blocks_left;
      Item& held = schedule_.items[static_cast<size_t>(item)];
      held.last = std::max(held.last, next_tick_ - 1);
    }
    holds_.erase(std::remove_if(holds_.begin(), holds_.end(), [](const auto& hold) { return hold.second <= 0; }),
                 holds_.end());
  }

  absl::StatusOr<int32_t> KernelIndex(KernelSpec spec) {
    const auto [it, is_new] = kernel_index_.emplace(spec.ToString(), static_cast<int32_t>(schedule_.kernels.size()));
    if (is_new) {
      ASSIGN_OR_RETURN(const int64_t bytes, scratch_bytes_(spec));
      kernel_scratch_.push_back(bytes);
      schedule_.kernels.push_back(std::move(spec));
    }
    return it->second;
  }

  // Appends a call to the instruction at hand, and its scratch; one tick.
  absl::Status AddCall(KernelSpec spec, Call call) {
    ASSIGN_OR_RETURN(call.kernel, KernelIndex(std::move(spec)));
    if (const int64_t bytes = kernel_scratch_[static_cast<size_t>(call.kernel)]; bytes > 0) {
      call.scratch.item = AddItem("scratch of " + schedule_.kernels[static_cast<size_t>(call.kernel)].operation, bytes,
                                  ItemKind::kScratch);
      Touch(call.scratch, true);
    }
    for (const Operand& input : call.inputs) Touch(input, false);
    for (const Operand& output : call.outputs) Touch(output, true);
    schedule_.instructions.back().calls.push_back(std::move(call));
    ++next_tick_;
    return absl::OkStatus();
  }

  // --- Gathers --------------------------------------------------------------------------------------------------

  int32_t UnitOf(int32_t block) const { return units_.unit_of_block[static_cast<size_t>(block)]; }

  // Groups steps that share one gather: neighbours that need the same unit.
  void PlanGathers() {
    if (options_.sharding != Sharding::kFull) return;
    int32_t previous = -1;
    for (size_t i = 0; i < order_.size(); ++i) {
      const int32_t unit = order_[i].needs_parameters ? UnitOf(order_[i].block) : -1;
      if (unit >= 0 && unit != previous) gathers_.push_back({unit, i});
      previous = unit;
    }
  }

  // Issues gathers so that, before step `step` runs, plan.prefetch gathers beyond its own are on their way.
  void EmitGathers(size_t step) {
    while (next_group_ < gathers_.size() && gathers_[next_group_].second <= step) ++next_group_;
    const size_t target = next_group_ + static_cast<size_t>(plan_.prefetch);
    const bool starts_group = next_group_ > 0 && gathers_[next_group_ - 1].second == step;
    if (!starts_group) return;
    for (; issued_ < std::min(target, gathers_.size()); ++issued_) {
      const int32_t unit = gathers_[issued_].first;
      const Unit& u = units_.units[static_cast<size_t>(unit)];
      const Operand whole{
          AddItem(u.name + " gathered", u.whole_elements * SizeOf(program_.shape.dtype), ItemKind::kGathered), 0, 0};
      pending_[unit].push_back(whole);
      EmitGather(unit, whole, order_[step].micro_batch);
    }
    const int32_t own = gathers_[next_group_ - 1].first;
    gathered_[static_cast<size_t>(own)] = pending_[own].front();
    pending_[own].erase(pending_[own].begin());
  }

  void EmitGather(int32_t unit, const Operand& whole, int32_t micro_batch) {
    Instruction& gather = Begin(InstructionKind::kGather, Stream::kGather);
    gather.unit = unit;
    gather.micro_batch = micro_batch;
    gather.from = schedule_.unit_states[static_cast<size_t>(unit)].master_shard;
    gather.to = whole;
    gather.count = units_.units[static_cast<size_t>(unit)].shard_elements;
    Touch(gather.from, false);
    Touch(gather.to, true);
    End();
  }

  Operand WholeParameters(int32_t unit) const {
    const auto u = static_cast<size_t>(unit);
    return options_.sharding == Sharding::kFull ? gathered_[u] : schedule_.unit_states[u].whole;
  }

  // --- Blocks ---------------------------------------------------------------------------------------------------

  absl::Status EmitStep(size_t index) {
    const ComputeStep& step = order_[index];
    EmitGathers(index);
    if (step.reload_before >= 0) EmitReload(step.reload_before, step.micro_batch);
    switch (step.kind) {
      case InstructionKind::kForward:
        return EmitForward(step);
      case InstructionKind::kHead:
        return EmitHead(step);
      case InstructionKind::kRecompute:
        return EmitRecompute(step);
      default:
        return EmitBackward(step);
    }
  }

  Instruction& BeginBlock(const ComputeStep& step) {
    Instruction& instruction = Begin(step.kind, Stream::kCompute);
    instruction.block = step.block;
    instruction.micro_batch = step.micro_batch;
    return instruction;
  }

  const ProgramGraph& GraphOf(int32_t block) const { return program_.graph(static_cast<size_t>(block)); }

  // Values of a block that exist before its nodes run: boundary, batch, parameters, gradients from behind.
  ValueItems Bindings(const ComputeStep& step) const {
    const Graph& graph = GraphOf(step.block).block.graph;
    const ProgramBlock& block = program_.blocks[static_cast<size_t>(step.block)];
    const auto b = static_cast<size_t>(step.block);
    ValueItems items;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      const auto id = static_cast<ValueId>(v);
      const auto k = static_cast<size_t>(value.index);
      if (value.role == ValueRole::kBoundary && k < boundary_[b].size()) items[id] = boundary_[b][k];
      if (value.role == ValueRole::kGradient && k < boundary_gradient_[b + 1].size()) {
        items[id] = boundary_gradient_[b + 1][k];
      }
      if (value.role == ValueRole::kData) {
        const std::vector<int32_t>& batch =
            value.index == static_cast<int32_t>(DataKind::kTokens) ? schedule_.tokens : schedule_.labels;
        items[id] = {batch[static_cast<size_t>(step.micro_batch)], 0, 0};
      }
      if (value.role == ValueRole::kParameter && step.needs_parameters) {
        const int32_t unit = UnitOf(step.block);
        Operand operand = WholeParameters(unit);
        operand.offset += units_.Find(unit, block.parameters[k]).offset * SizeOf(program_.shape.dtype);
        items[id] = operand;
      }
    }
    return items;
  }

  // Runs `routine`, making items for outputs that the routine itself or `wanted` reads. `items` gains them.
  absl::Status EmitRoutine(const ComputeStep& step, const Routine& routine, const std::vector<ValueId>& wanted,
                           ItemKind wanted_kind, ValueItems* items) {
    const Graph& graph = GraphOf(step.block).block.graph;
    std::vector<bool> read(graph.values.size(), false);
    std::vector<bool> outlives(graph.values.size(), false);
    for (const int32_t n : routine.nodes) {
      for (const ValueId v : graph.nodes[static_cast<size_t>(n)].inputs) read[static_cast<size_t>(v)] = true;
    }
    for (const ValueId v : wanted) read[static_cast<size_t>(v)] = outlives[static_cast<size_t>(v)] = true;
    for (const int32_t n : routine.nodes) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      KernelSpec spec{node.operation, {}, {}, node.attributes};
      Call call;
      for (const ValueId v : node.inputs) {
        spec.inputs.push_back(graph.type(v));
        const auto found = items->find(v);
        REPRISE_CHECK(found != items->end()) << "value %" << v << " of " << node.operation << " has no item";
        call.inputs.push_back(found->second);
      }
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId v = node.outputs[o];
        spec.outputs.push_back(graph.type(v));
        bool accumulate = false;
        Operand operand = ParameterGradient(step, v, &accumulate);
        if (operand.item < 0 && read[static_cast<size_t>(v)])
          operand = OutputItem(step, node, v, outlives, wanted_kind, &accumulate);
        if (operand.item >= 0) (*items)[v] = operand;
        if (accumulate) call.accumulate |= 1U << o;
        call.outputs.push_back(operand);
      }
      RETURN_IF_ERROR(AddCall(std::move(spec), std::move(call)));
    }
    schedule_.instructions.back().flops += routine.flops;
    return absl::OkStatus();
  }

  Operand OutputItem(const ComputeStep& step, const Node& node, ValueId value, const std::vector<bool>& outlives,
                     ItemKind wanted_kind, bool* accumulate) {
    const TensorType& type = GraphOf(step.block).block.graph.type(value);
    if (type.dtype == DType::kFloat64 && type.elements() == 1) {  // the loss
      *accumulate = step.micro_batch > 0;
      return {schedule_.scalars, kLossScalar * static_cast<int64_t>(sizeof(double)), 0};
    }
    const ItemKind kind = outlives[static_cast<size_t>(value)] ? wanted_kind : ItemKind::kTransient;
    return {AddItem(absl::StrCat(program_.blocks[static_cast<size_t>(step.block)].name, " ", node.operation),
                    type.bytes(), kind),
            0, 0};
  }

  void CollectOutputs(const ComputeStep& step, const ValueItems& items) {
    const Graph& graph = GraphOf(step.block).block.graph;
    std::vector<Operand>& out = boundary_[static_cast<size_t>(step.block) + 1];
    out.clear();
    for (const ValueId v : graph.outputs) out.push_back(items.at(v));
  }

  absl::Status EmitForward(const ComputeStep& step) {
    const ProgramGraph& graph = GraphOf(step.block);
    BeginBlock(step);
    ValueItems items = Bindings(step);
    std::vector<ValueId> wanted = graph.block.graph.outputs;
    if (step.keeps_saved) wanted.insert(wanted.end(), graph.routines.saved.begin(), graph.routines.saved.end());
    RETURN_IF_ERROR(EmitRoutine(step, graph.routines.forward, wanted, ItemKind::kRetained, &items));
    EndBlockInstruction();
    CollectOutputs(step, items);
    if (step.keeps_saved) saved_[static_cast<size_t>(step.block)] = std::move(items);
    // Behind a layer's forward stands the boundary of the next layer: it may leave now.
    const size_t next_layer = static_cast<size_t>(step.block);
    if (program_.shape.training && next_layer < plan_.layers.size() && plan_.layers[next_layer].offload_boundary) {
      EmitOffload(step.block + 1, step.micro_batch);
    }
    return absl::OkStatus();
  }

  void EmitOffload(int32_t block, int32_t micro_batch) {
    host_[static_cast<size_t>(block)].clear();
    for (const Operand& tensor : boundary_[static_cast<size_t>(block)]) {
      const int64_t bytes = schedule_.items[static_cast<size_t>(tensor.item)].bytes;
      const Operand host{
          AddItem(absl::StrCat("boundary ", block, " on the host"), bytes, ItemKind::kRetained, Memory::kHost), 0, 0};
      EmitCopy(InstructionKind::kOffload, Stream::kOffload, block, micro_batch, tensor, host, bytes);
      HoldForLag(tensor.item);
      host_[static_cast<size_t>(block)].push_back(host);
    }
  }

  void EmitReload(int32_t block, int32_t micro_batch) {
    std::vector<Operand>& tensors = boundary_[static_cast<size_t>(block)];
    for (size_t k = 0; k < tensors.size(); ++k) {
      const Operand host = host_[static_cast<size_t>(block)][k];
      const int64_t bytes = schedule_.items[static_cast<size_t>(host.item)].bytes;
      tensors[k] = {AddItem(absl::StrCat("boundary ", block, " reloaded"), bytes, ItemKind::kRetained), 0, 0};
      EmitCopy(InstructionKind::kReload, Stream::kReload, block, micro_batch, host, tensors[k], bytes);
    }
  }

  void EmitCopy(InstructionKind kind, Stream stream, int32_t block, int32_t micro_batch, const Operand& from,
                const Operand& to, int64_t bytes) {
    Instruction& copy = Begin(kind, stream);
    copy.block = block;
    copy.micro_batch = micro_batch;
    copy.from = from;
    copy.to = to;
    copy.count = bytes;
    Touch(from, false);
    Touch(to, true);
    End();
  }

  absl::Status EmitHead(const ComputeStep& step) {
    const ProgramGraph& graph = GraphOf(step.block);
    BeginBlock(step);
    ValueItems items = Bindings(step);
    std::vector<ValueId> wanted = graph.routines.saved;
    wanted.insert(wanted.end(), graph.block.graph.outputs.begin(), graph.block.graph.outputs.end());
    // The loss's kernel makes its gradients in the forward: of a head without a norm, those of the boundary too.
    for (const ValueId v : graph.block.boundary_gradients) {
      if (v != kNoValue) wanted.push_back(v);
    }
    RETURN_IF_ERROR(BeginGradients(step));
    RETURN_IF_ERROR(EmitRoutine(step, graph.routines.forward, wanted, ItemKind::kTransient, &items));
    if (!program_.shape.training) {
      EndBlockInstruction();
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(EmitBackwardRoutine(step, &items));
    EndBlockInstruction();
    EmitReduce(step);
    return absl::OkStatus();
  }

  absl::Status EmitRecompute(const ComputeStep& step) {
    const ProgramGraph& graph = GraphOf(step.block);
    BeginBlock(step);
    ValueItems items = Bindings(step);
    std::vector<ValueId> wanted = graph.routines.saved;
    if (step.through) wanted.insert(wanted.end(), graph.block.graph.outputs.begin(), graph.block.graph.outputs.end());
    RETURN_IF_ERROR(EmitRoutine(step, step.through ? graph.routines.recompute_through : graph.routines.recompute,
                                wanted, ItemKind::kRetained, &items));
    EndBlockInstruction();
    if (step.through) CollectOutputs(step, items);
    saved_[static_cast<size_t>(step.block)] = std::move(items);
    return absl::OkStatus();
  }

  absl::Status EmitBackward(const ComputeStep& step) {
    BeginBlock(step);
    ValueItems items = Bindings(step);
    ValueItems& saved = saved_[static_cast<size_t>(step.block)];
    for (const ValueId v : GraphOf(step.block).routines.saved) items[v] = saved.at(v);
    RETURN_IF_ERROR(BeginGradients(step));
    RETURN_IF_ERROR(EmitBackwardRoutine(step, &items));
    EndBlockInstruction();
    saved.clear();
    EmitReduce(step);
    return absl::OkStatus();
  }

  absl::Status EmitBackwardRoutine(const ComputeStep& step, ValueItems* items) {
    const ProgramGraph& graph = GraphOf(step.block);
    std::vector<ValueId> wanted;
    for (const ValueId v : graph.block.boundary_gradients) {
      if (v != kNoValue) wanted.push_back(v);
    }
    RETURN_IF_ERROR(EmitRoutine(step, graph.routines.backward, wanted, ItemKind::kTransient, items));
    std::vector<Operand>& gradients = boundary_gradient_[static_cast<size_t>(step.block)];
    gradients.clear();
    for (const ValueId v : graph.block.boundary_gradients)
      gradients.push_back(v == kNoValue ? Operand{} : items->at(v));
    return absl::OkStatus();
  }

  // --- Gradients ------------------------------------------------------------------------------------------------

  bool LastMicroBatch(const ComputeStep& step) const { return step.micro_batch + 1 == options_.accumulation; }

  // The root unit gets gradients twice a micro-batch: from the head, then from the embedding.
  bool SecondOfRoot(const ComputeStep& step) const { return step.block == 0; }

  // Without reduction in each micro-batch, whole gradients are accumulated in one buffer for the step. Only the
  // embedding's in the last micro-batch stand apart, because the head's are then already summed in that buffer.
  bool UsesStepBuffer(const ComputeStep& step) const {
    if (ReducesEachMicroBatch(options_.sharding)) return false;
    return !(SecondOfRoot(step) && LastMicroBatch(step) && units_.ranks > 1);
  }

  // Chooses the buffer that this step's parameter gradients go to, and zeroes what no kernel writes of a fresh one.
  absl::Status BeginGradients(const ComputeStep& step) {
    if (!program_.shape.training) return absl::OkStatus();
    const int32_t unit = UnitOf(step.block);
    const Unit& u = units_.units[static_cast<size_t>(unit)];
    Operand& buffer = gradient_whole_[static_cast<size_t>(unit)];
    const bool step_buffer = UsesStepBuffer(step);
    add_gradients_ = step_buffer && buffer.item >= 0;
    if (add_gradients_) {
      current_gradient_ = buffer;
      return absl::OkStatus();
    }
    current_gradient_ = {AddItem(u.name + " gradients", u.whole_elements * kFloatBytes, ItemKind::kGradient), 0, 0};
    if (step_buffer) buffer = current_gradient_;
    return ZeroUnwritten(step, u);
  }

  absl::Status ZeroUnwritten(const ComputeStep& step, const Unit& unit) {
    const ProgramGraph& graph = GraphOf(step.block);
    const ProgramBlock& block = program_.blocks[static_cast<size_t>(step.block)];
    std::vector<UnitRange> written;
    for (const UnitParameter& p : unit.parameters) {
      const auto found = std::find(block.parameters.begin(), block.parameters.end(), p.parameter);
      const auto k = static_cast<size_t>(found - block.parameters.begin());
      const bool has_gradient = found != block.parameters.end() && k < graph.block.parameter_gradients.size() &&
                                graph.block.parameter_gradients[k] != kNoValue;
      if (has_gradient) written.push_back({&p, p.offset, p.end()});
    }
    for (const UnitRange& gap : GapsOf(unit, written)) {
      Call call;
      Operand place = current_gradient_;
      place.offset += gap.begin * kFloatBytes;
      call.outputs.push_back(place);
      RETURN_IF_ERROR(AddCall({"fill_zero", {}, {{DType::kFloat32, {gap.end - gap.begin}}}, {}}, std::move(call)));
    }
    return absl::OkStatus();
  }

  Operand ParameterGradient(const ComputeStep& step, ValueId value, bool* accumulate) {
    const ProgramGraph& graph = GraphOf(step.block);
    for (size_t k = 0; k < graph.block.parameter_gradients.size(); ++k) {
      if (graph.block.parameter_gradients[k] != value) continue;
      const Parameter* parameter = program_.blocks[static_cast<size_t>(step.block)].parameters[k];
      Operand operand = current_gradient_;
      operand.offset += units_.Find(UnitOf(step.block), parameter).offset * kFloatBytes;
      *accumulate = add_gradients_;
      return operand;
    }
    return {};
  }

  // Reduces a unit's gradients where its turn has come: into the shard, or in place into this rank's part.
  void EmitReduce(const ComputeStep& step) {
    const bool each = ReducesEachMicroBatch(options_.sharding);
    if (!each && (!LastMicroBatch(step) || units_.ranks == 1)) {
      if (units_.ranks == 1) gradient_shard_[static_cast<size_t>(UnitOf(step.block))] = current_gradient_;
      return;
    }
    const int32_t unit = UnitOf(step.block);
    const Unit& u = units_.units[static_cast<size_t>(unit)];
    Operand& shard = gradient_shard_[static_cast<size_t>(unit)];
    const bool accumulate = shard.item >= 0;
    if (!accumulate) {
      shard =
          each ? Operand{AddItem(u.name + " gradient shard", u.shard_elements * kFloatBytes, ItemKind::kGradient), 0, 0}
               : Operand{current_gradient_.item, 0, u.shard_elements * kFloatBytes};
    }
    Instruction& reduce = Begin(InstructionKind::kReduce, Stream::kReduce);
    reduce.unit = unit;
    reduce.micro_batch = step.micro_batch;
    reduce.from = current_gradient_;
    reduce.to = shard;
    reduce.count = u.shard_elements;
    reduce.accumulate = accumulate;
    Touch(reduce.from, false);
    Touch(reduce.to, true);
    End();
    HoldForLag(current_gradient_.item);
  }

  // --- The update -----------------------------------------------------------------------------------------------

  absl::Status EmitUpdate() {
    RETURN_IF_ERROR(EmitNorm());
    const Operand scalars{schedule_.scalars, 0, 0};
    Begin(InstructionKind::kSumScalars, Stream::kReduce);
    Touch(scalars, true);
    End();
    Begin(InstructionKind::kFinish, Stream::kCompute);
    Touch(scalars, false);
    End();
    if (options_.sharding == Sharding::kNone && units_.ranks > 1) EmitGatherGradients();
    for (size_t unit = 0; unit < units_.units.size(); ++unit) EmitUnitUpdate(static_cast<int32_t>(unit));
    // Gradients stay readable after the step, for whoever asks for them.
    for (const Operand& shard : gradient_shard_) {
      schedule_.items[static_cast<size_t>(shard.item)].last = next_tick_;
    }
    return absl::OkStatus();
  }

  absl::Status EmitNorm() {
    Begin(InstructionKind::kNorm, Stream::kCompute);
    for (size_t unit = 0; unit < units_.units.size(); ++unit) {
      Call call;
      call.inputs.push_back(gradient_shard_[unit]);
      call.outputs.push_back({schedule_.scalars, kSquaresScalar * static_cast<int64_t>(sizeof(double)), 0});
      call.accumulate = unit > 0 ? 1U : 0U;
      RETURN_IF_ERROR(AddCall(
          {"squared_sum", {{DType::kFloat32, {units_.units[unit].shard_elements}}}, {{DType::kFloat64, {1}}}, {}},
          std::move(call)));
    }
    End();
    return absl::OkStatus();
  }

  void EmitGatherGradients() {
    for (size_t unit = 0; unit < units_.units.size(); ++unit) {
      Instruction& gather = Begin(InstructionKind::kGatherGradients, Stream::kGather);
      gather.unit = static_cast<int32_t>(unit);
      gather.from = gradient_shard_[unit];
      gather.to = {gradient_shard_[unit].item, 0, 0};
      gather.count = units_.units[unit].shard_elements;
      Touch(gather.to, true);
      End();
    }
  }

  void EmitUnitUpdate(int32_t unit) {
    const auto u = static_cast<size_t>(unit);
    const UnitState& state = schedule_.unit_states[u];
    Instruction& update = Begin(InstructionKind::kUpdate, Stream::kCompute);
    update.unit = unit;
    const bool whole = options_.sharding == Sharding::kNone;
    update.from = whole ? Operand{gradient_shard_[u].item, 0, 0} : gradient_shard_[u];
    update.to = state.master;
    update.count = whole ? units_.units[u].whole_elements : units_.units[u].shard_elements;
    Touch(update.from, false);
    Touch(update.to, true);
    for (const Operand& moment : state.moments) Touch(moment, true);
    if (whole) Touch(state.whole, true);  // cast from the master, in bf16
    End();
    const bool gathers = options_.sharding == Sharding::kGradients || options_.sharding == Sharding::kOptimizer;
    if (gathers) EmitGather(unit, state.whole, -1);
  }

  // --- Memory ---------------------------------------------------------------------------------------------------

  void AssignMemory() {
    int64_t persistent = 0;
    for (Item& item : schedule_.items) {
      if (!item.persistent()) continue;
      item.first = 0;
      item.last = next_tick_;
      item.offset = persistent;
      persistent += RoundUp(item.bytes, kItemAlignment);
    }
    const Layout device = Place(Memory::kDevice, persistent);
    schedule_.device_bytes = persistent + device.bytes;
    schedule_.largest_live_sum = persistent + device.largest_live_sum;
    schedule_.peak_tick = device.peak_tick;
    schedule_.host_bytes = Place(Memory::kHost, 0).bytes;
  }

  Layout Place(Memory memory, int64_t base) {
    std::vector<LayoutItem> items;
    std::vector<size_t> indices;
    for (size_t i = 0; i < schedule_.items.size(); ++i) {
      const Item& item = schedule_.items[i];
      if (item.memory != memory || item.persistent() || item.first < 0) continue;
      items.push_back({item.bytes, item.first, item.last});
      indices.push_back(i);
    }
    Layout layout = AssignAddresses(items);
    for (size_t k = 0; k < indices.size(); ++k) schedule_.items[indices[k]].offset = base + layout.offsets[k];
    return layout;
  }

  const Program& program_;
  const UnitLayout& units_;
  const Plan& plan_;
  const CompileOptions& options_;
  const ScratchBytes& scratch_bytes_;

  Schedule schedule_;
  std::vector<ComputeStep> order_;
  int64_t next_tick_ = 0;
  std::vector<std::pair<int32_t, int>> holds_;  // item, block instructions left
  std::map<std::string, int32_t> kernel_index_;
  std::vector<int64_t> kernel_scratch_;

  std::vector<std::pair<int32_t, size_t>> gathers_;  // unit, first step that uses it
  size_t next_group_ = 0;                            // groups that started at or before the step at hand
  size_t issued_ = 0;
  std::map<int32_t, std::vector<Operand>> pending_;  // gathers issued and not yet used, by unit
  std::vector<Operand> gathered_;                    // in use, by unit

  std::vector<std::vector<Operand>> boundary_;           // before each block
  std::vector<std::vector<Operand>> boundary_gradient_;  // before each block
  std::vector<std::vector<Operand>> host_;               // offloaded boundary before each block
  std::vector<ValueItems> saved_;                        // by block
  std::vector<Operand> gradient_whole_;                  // step buffers, by unit
  std::vector<Operand> gradient_shard_;                  // by unit
  Operand current_gradient_;
  bool add_gradients_ = false;
};

}  // namespace

absl::StatusOr<Schedule> Compile(const Program& program, const UnitLayout& units, const Plan& plan,
                                 const CompileOptions& options, const ScratchBytes& scratch_bytes) {
  return Compiler(program, units, plan, options, scratch_bytes).Run();
}

}  // namespace reprise
