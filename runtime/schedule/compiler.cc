#include "runtime/schedule/compiler.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/schedule/compute_order.h"
#include "runtime/schedule/gathers.h"
#include "runtime/schedule/gradients.h"
#include "runtime/schedule/plan_check.h"
#include "runtime/schedule/schedule_builder.h"
#include "runtime/schedule/state_items.h"
#include "runtime/schedule/update.h"

namespace reprise {
namespace {

using ValueItems = std::map<ValueId, Operand>;

class Compiler {
 public:
  Compiler(const Program& program, const UnitLayout& units, const Plan& plan, const CompileOptions& options,
           const ScratchBytes& scratch_bytes)
      : program_(program),
        units_(units),
        plan_(plan),
        options_(options),
        builder_(scratch_bytes),
        gathers_(units, options.sharding, program.shape.dtype, plan.prefetch, &builder_),
        gradients_(program, units, options.sharding, options.accumulation, &builder_) {}

  absl::StatusOr<Schedule> Run() {
    const bool training = program_.shape.training;
    AddStateItems(units_, options_.sharding, program_.shape.dtype, options_.optimizer_states,
                  training ? options_.accumulation : 1, program_.data_bytes, &builder_.schedule());
    if (training) RETURN_IF_ERROR(CheckPlan(program_, plan_));
    order_ = training ? TrainingOrder(plan_, options_.accumulation, RecomputedLayers(program_, plan_),
                                      program_.first_backward)
                      : EvaluationOrder(static_cast<int32_t>(program_.layer_count()));
    boundary_.resize(program_.blocks.size() + 1);
    boundary_gradient_.resize(program_.blocks.size() + 1);
    saved_.resize(program_.blocks.size());
    host_.resize(program_.blocks.size());
    gathers_.Plan(order_);
    for (size_t i = 0; i < order_.size(); ++i) RETURN_IF_ERROR(EmitStep(i));
    if (training) RETURN_IF_ERROR(EmitUpdate(units_, options_.sharding, gradients_.shards(), &builder_));
    return std::move(builder_).Finish();
  }

 private:
  absl::Status EmitStep(size_t index) {
    const ComputeStep& step = order_[index];
    at_ = index;
    gathers_.EmitBefore(index, step.micro_batch);
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
    Instruction& instruction = builder_.Begin(step.kind, Stream::kCompute);
    instruction.block = step.block;
    instruction.micro_batch = step.micro_batch;
    return instruction;
  }

  void EndBlock() {
    builder_.EndBlock();
    gathers_.EndStep(at_);
  }

  const ProgramGraph& GraphOf(int32_t block) const { return program_.graph(static_cast<size_t>(block)); }

  // Values of a block that exist before its nodes run: boundary, batch, parameters, gradients from behind.
  ValueItems Bindings(const ComputeStep& step) const {
    const Graph& graph = GraphOf(step.block).block.graph;
    const ProgramBlock& block = program_.blocks[static_cast<size_t>(step.block)];
    const auto b = static_cast<size_t>(step.block);
    const Schedule& schedule = builder_.schedule();
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
        const std::vector<int32_t>& batch = schedule.data[k];  // empty where no node reads it
        if (!batch.empty()) items[id] = {batch[static_cast<size_t>(step.micro_batch)], 0, 0};
      }
      if (value.role == ValueRole::kParameter && step.needs_parameters) {
        const UnitPlace place = units_.Find(b, block.parameters[k]);
        Operand operand = gathers_.WholeParameters(place.unit);
        operand.offset += place.parameter->offset * SizeOf(program_.shape.dtype);
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
        Operand operand = gradients_.Place(step, v, &accumulate);
        if (operand.item < 0 && read[static_cast<size_t>(v)])
          operand = OutputItem(step, node, v, outlives, wanted_kind, &accumulate);
        if (operand.item >= 0) (*items)[v] = operand;
        if (accumulate) call.accumulate |= 1U << o;
        call.outputs.push_back(operand);
      }
      RETURN_IF_ERROR(builder_.AddCall(std::move(spec), std::move(call)));
    }
    builder_.schedule().instructions.back().flops += routine.flops;
    return absl::OkStatus();
  }

  Operand OutputItem(const ComputeStep& step, const Node& node, ValueId value, const std::vector<bool>& outlives,
                     ItemKind wanted_kind, bool* accumulate) {
    const TensorType& type = GraphOf(step.block).block.graph.type(value);
    if (type.dtype == DType::kFloat64 && type.elements() == 1) {  // the loss
      *accumulate = step.micro_batch > 0;
      return {builder_.schedule().scalars, kLossScalar * static_cast<int64_t>(sizeof(double)), 0};
    }
    const ItemKind kind = outlives[static_cast<size_t>(value)] ? wanted_kind : ItemKind::kTransient;
    return {builder_.AddItem(absl::StrCat(program_.blocks[static_cast<size_t>(step.block)].name, " ", node.operation),
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
    if (step.keeps_saved) {
      const std::vector<ValueId>& kept = KeptOf(step.block);
      wanted.insert(wanted.end(), kept.begin(), kept.end());
    }
    RETURN_IF_ERROR(EmitRoutine(step, graph.routines.forward, wanted, ItemKind::kRetained, &items));
    EndBlock();
    CollectOutputs(step, items);
    if (step.keeps_saved) saved_[static_cast<size_t>(step.block)] = std::move(items);
    // Behind a layer's forward stands the boundary of the next layer: it may leave now.
    if (program_.shape.training && Offloads(step.block + 1)) EmitOffload(step.block + 1, step.micro_batch);
    return absl::OkStatus();
  }

  const LayerPlan& PlanOf(int32_t block) const { return plan_.layers[static_cast<size_t>(block) - 1]; }

  bool Offloads(int32_t block) const {
    return static_cast<size_t>(block) <= plan_.layers.size() && PlanOf(block).offload_boundary;
  }

  const SavedSet* SetOf(int32_t block) const {  // null: keeps everything, or nothing
    const LayerPlan& layer = PlanOf(block);
    return layer.keep == Keep::kSet ? &GraphOf(block).saved_sets[static_cast<size_t>(layer.set)] : nullptr;
  }

  // What the forward of a layer that keeps anything leaves for its backward.
  const std::vector<ValueId>& KeptOf(int32_t block) const {
    const SavedSet* set = SetOf(block);
    return set != nullptr ? set->values : GraphOf(block).routines.saved;
  }

  // Of the tensors of a boundary, those that somebody reads again.
  void EmitOffload(int32_t block, int32_t micro_batch) {
    const std::vector<Operand>& tensors = boundary_[static_cast<size_t>(block)];
    std::vector<Operand>& hosts = host_[static_cast<size_t>(block)];
    hosts.assign(tensors.size(), {});
    const std::vector<bool> reads = ReadsOfBoundary(program_, plan_, static_cast<size_t>(block) - 1);
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (k >= reads.size() || !reads[k]) continue;
      const Operand& tensor = tensors[k];
      const int64_t bytes = builder_.item(tensor.item).bytes;
      const Operand host{
          builder_.AddItem(absl::StrCat("boundary ", block, " on the host"), bytes, ItemKind::kRetained, Memory::kHost),
          0, 0};
      EmitCopy(InstructionKind::kOffload, Stream::kOffload, block, micro_batch, tensor, host, bytes);
      builder_.HoldForLag(tensor.item);
      hosts[k] = host;
    }
  }

  void EmitReload(int32_t block, int32_t micro_batch) {
    std::vector<Operand>& tensors = boundary_[static_cast<size_t>(block)];
    for (size_t k = 0; k < tensors.size(); ++k) {
      const Operand host = host_[static_cast<size_t>(block)][k];
      if (host.item < 0) continue;
      const int64_t bytes = builder_.item(host.item).bytes;
      tensors[k] = {builder_.AddItem(absl::StrCat("boundary ", block, " reloaded"), bytes, ItemKind::kRetained), 0, 0};
      EmitCopy(InstructionKind::kReload, Stream::kReload, block, micro_batch, host, tensors[k], bytes);
    }
  }

  void EmitCopy(InstructionKind kind, Stream stream, int32_t block, int32_t micro_batch, const Operand& from,
                const Operand& to, int64_t bytes) {
    Instruction& copy = builder_.Begin(kind, stream);
    copy.block = block;
    copy.micro_batch = micro_batch;
    copy.from = from;
    copy.to = to;
    copy.count = bytes;
    builder_.Touch(from, false);
    builder_.Touch(to, true);
    builder_.End();
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
    if (program_.shape.training) RETURN_IF_ERROR(gradients_.Begin(step));
    RETURN_IF_ERROR(EmitRoutine(step, graph.routines.forward, wanted, ItemKind::kTransient, &items));
    if (!program_.shape.training) {
      EndBlock();
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(EmitBackwardRoutine(step, &items));
    EndBlock();
    gradients_.EmitReduce(step);
    return absl::OkStatus();
  }

  absl::Status EmitRecompute(const ComputeStep& step) {
    const ProgramGraph& graph = GraphOf(step.block);
    BeginBlock(step);
    ValueItems items = Bindings(step);
    std::vector<ValueId> wanted = graph.routines.saved;
    if (step.through) wanted.insert(wanted.end(), graph.block.graph.outputs.begin(), graph.block.graph.outputs.end());
    const Routine* routine = step.through ? &graph.routines.recompute_through : &graph.routines.recompute;
    if (const SavedSet* set = SetOf(step.block); set != nullptr) {
      routine = &set->recompute;
      for (const ValueId v : set->values) items[v] = saved_[static_cast<size_t>(step.block)].at(v);
    }
    RETURN_IF_ERROR(EmitRoutine(step, *routine, wanted, ItemKind::kRetained, &items));
    EndBlock();
    if (step.through) CollectOutputs(step, items);
    saved_[static_cast<size_t>(step.block)] = std::move(items);
    return absl::OkStatus();
  }

  absl::Status EmitBackward(const ComputeStep& step) {
    BeginBlock(step);
    ValueItems items = Bindings(step);
    ValueItems& saved = saved_[static_cast<size_t>(step.block)];
    for (const ValueId v : GraphOf(step.block).routines.saved) items[v] = saved.at(v);
    RETURN_IF_ERROR(gradients_.Begin(step));
    RETURN_IF_ERROR(ZeroMissingGradients(step, &items));
    RETURN_IF_ERROR(EmitBackwardRoutine(step, &items));
    EndBlock();
    saved.clear();
    gradients_.EmitReduce(step);
    return absl::OkStatus();
  }

  // What the block behind does not read has a gradient of zero.
  absl::Status ZeroMissingGradients(const ComputeStep& step, ValueItems* items) {
    const ProgramGraph& graph = GraphOf(step.block);
    for (const int32_t node : graph.routines.backward.nodes) {
      for (const ValueId v : graph.block.graph.nodes[static_cast<size_t>(node)].inputs) {
        const Value& value = graph.block.graph.values[static_cast<size_t>(v)];
        if (value.role != ValueRole::kGradient) continue;
        Operand& place = (*items)[v];
        if (place.item >= 0) continue;
        place = {builder_.AddItem(absl::StrCat(program_.blocks[static_cast<size_t>(step.block)].name, " zero gradient"),
                                  value.type.bytes(), ItemKind::kTransient),
                 0, 0};
        Call call;
        call.outputs.push_back(place);
        RETURN_IF_ERROR(builder_.AddCall({"fill_zero", {}, {value.type}, {}}, std::move(call)));
      }
    }
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

  const Program& program_;
  const UnitLayout& units_;
  const Plan& plan_;
  const CompileOptions& options_;

  ScheduleBuilder builder_;
  Gathers gathers_;
  Gradients gradients_;
  std::vector<ComputeStep> order_;
  size_t at_ = 0;  // of it: the step at hand

  std::vector<std::vector<Operand>> boundary_;           // before each block
  std::vector<std::vector<Operand>> boundary_gradient_;  // before each block
  std::vector<std::vector<Operand>> host_;               // offloaded boundary before each block
  std::vector<ValueItems> saved_;                        // by block
};

}  // namespace

absl::StatusOr<Schedule> Compile(const Program& program, const UnitLayout& units, const Plan& plan,
                                 const CompileOptions& options, const ScratchBytes& scratch_bytes) {
  return Compiler(program, units, plan, options, scratch_bytes).Run();
}

}  // namespace reprise
