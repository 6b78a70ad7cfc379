#include "runtime/schedule/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/plan/layout.h"
#include "runtime/schedule/memory_guard.h"
#include "runtime/schedule/step_exchange.h"
#include "runtime/schedule/update_calls.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

// A kernel call with its addresses.
struct BoundCall {
  const Kernel* kernel = nullptr;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* scratch = nullptr;
  uint32_t accumulate = 0;
};

// An instruction made ready: what its stream runs.
struct BoundInstruction {
  const Instruction* instruction = nullptr;
  std::vector<BoundCall> calls;
  Work work;
  WorkTimes times;
  Completion completion;
  std::string label;
  int64_t highest_device_byte = 0;
  int64_t highest_host_byte = 0;
  bool recorded = false;  // somebody waits for it
};

class ScheduledStep : public Step {
 public:
  ScheduledStep(const Schedule& schedule, const UnitLayout& units, DType dtype, const OptimizerSettings& optimizer,
                const StepResources& resources)
      : schedule_(schedule),
        units_(units),
        dtype_(dtype),
        optimizer_(optimizer),
        resources_(resources),
        rank_(resources.communicator->rank()),
        training_(std::any_of(schedule.instructions.begin(), schedule.instructions.end(),
                              [](const Instruction& i) { return i.kind == InstructionKind::kFinish; })),
        exchange_(schedule_, *resources_.device) {
    if (resources.poison) guard_ = std::make_unique<MemoryGuard>(schedule_, resources.device->arena());
  }

  absl::Status Bind() {
    if (schedule_.device_bytes > resources_.device->arena_bytes()) {
      return absl::InternalError(absl::StrCat("the schedule needs an arena of ", schedule_.device_bytes, " bytes, not ",
                                              resources_.device->arena_bytes()));
    }
    bound_ = std::vector<BoundInstruction>(schedule_.instructions.size());
    timeline_.start_ns.assign(bound_.size(), 0);
    timeline_.end_ns.assign(bound_.size(), 0);
    for (size_t i = 0; i < bound_.size(); ++i) {
      bound_[i].instruction = &schedule_.instructions[i];
      RETURN_IF_ERROR(BindInstruction(&bound_[i]));
      for (const int32_t wait : schedule_.instructions[i].waits) bound_[static_cast<size_t>(wait)].recorded = true;
    }
    resources_.device->ReserveEvents(static_cast<int>(bound_.size()));
    return absl::OkStatus();
  }

  absl::Status TakeMemory() { return exchange_.TakeMemory(); }

  absl::Span<std::byte> data(DataKind kind, int micro_batch) override { return exchange_.data(kind, micro_batch); }

  absl::Span<const float> gradient_shard(int32_t unit) const override {
    return {reinterpret_cast<const float*>(gradient_shard_[static_cast<size_t>(unit)]),
            static_cast<size_t>(units_.units[static_cast<size_t>(unit)].shard_elements)};
  }

  const Timeline& timeline() const override { return timeline_; }

  absl::StatusOr<StepResult> Run(const StepInput& input) override {
    const Clock::time_point start = Clock::now();
    input_ = input;
    Device& device = *resources_.device;
    RETURN_IF_ERROR(exchange_.Give({.seed = input.seed, .step = input.step, .learning_rate = input.learning_rate},
                                   input.counted_labels));
    device.ResetStatistics();
    if (guard_ != nullptr) guard_->BeginStep();
    // What was handed over was written by the host: that the guard allows.
    if (resources_.capture && has_run_) {
      RETURN_IF_ERROR(Capture());
      device.Replay(captured_);
    } else {
      IssueAll();
    }
    const absl::Status status = device.Synchronize();
    if (guard_ != nullptr) guard_->EndStep();
    RETURN_IF_ERROR(status);
    has_run_ = true;
    RETURN_IF_ERROR(TakeSums());
    return Collect(std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  std::byte* Address(const Operand& operand) const {
    if (operand.item < 0) return nullptr;
    const Item& item = schedule_.items[static_cast<size_t>(operand.item)];
    std::byte* base = resources_.device->arena();
    if (item.memory == Memory::kHost) base = resources_.host->data();
    return base + item.offset + operand.offset + rank_ * operand.rank_stride;
  }

  // The same on every rank.
  absl::Status TakeSums() {
    ASSIGN_OR_RETURN(const StepSums sums, exchange_.TakeSums());
    loss_ = training_ && sums.count > 0 ? sums.loss / sums.count : training_ ? 0 : sums.loss;
    if (!training_) return absl::OkStatus();
    norm_ = sums.count > 0 ? std::sqrt(sums.squares) / sums.count : 0;
    total_count_ = static_cast<int64_t>(sums.count);
    if (std::isfinite(loss_) && std::isfinite(norm_)) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("step ", input_.step + 1, ": ",
                                              std::isfinite(loss_) ? "the gradient norm" : "the loss",
                                              " is not finite; nothing was updated. Lower --learning_rate, raise "
                                              "--warmup_steps, or look at the data of this step",
                                              input_.step == 0 ? " and at the weights that it started from" : ""));
  }

  // --- Binding --------------------------------------------------------------------------------------------------

  absl::Status BindInstruction(BoundInstruction* bound) {
    const Instruction& instruction = *bound->instruction;
    for (const Access& access : instruction.accesses) {
      const Item& item = schedule_.items[static_cast<size_t>(access.item)];
      int64_t& highest = item.memory == Memory::kDevice ? bound->highest_device_byte : bound->highest_host_byte;
      highest = std::max(highest, item.offset + RoundUp(item.bytes, kItemAlignment));
    }
    bound->label = schedule_.InstructionLabel(static_cast<int32_t>(bound - bound_.data()));
    switch (instruction.kind) {
      case InstructionKind::kForward:
      case InstructionKind::kHead:
      case InstructionKind::kRecompute:
      case InstructionKind::kBackward:
      case InstructionKind::kNorm:
        RETURN_IF_ERROR(BindCalls(bound));
        return Make(bound, [this, bound] { return RunCalls(bound); });
      case InstructionKind::kOffload:
      case InstructionKind::kReload:
        return Make(bound, [this, bound] { return Copy(*bound->instruction); });
      case InstructionKind::kGather:
        RETURN_IF_ERROR(BindCast(bound));
        return Make(
            bound, [this, bound] { return Gather(bound); }, true);
      case InstructionKind::kGatherGradients:
        return Make(
            bound, [this, bound] { return AllGather(bound, 4); }, true);
      case InstructionKind::kReduce:
        BindReduce(*bound);
        return Make(
            bound, [this, bound] { return Reduce(bound); }, true);
      case InstructionKind::kSumScalars:
        return Make(
            bound, [this, bound] { return SumScalars(bound); }, true);
      case InstructionKind::kFinish:
        RETURN_IF_ERROR(BindFinish(bound));
        return Make(bound, [this, bound] { return RunCalls(bound); });
      case InstructionKind::kUpdate:
        return BindUpdate(bound);
    }
    return absl::InternalError("an instruction of no kind");
  }

  // The work that `run` is, inside the guard where there is one.
  template <typename Run>
  absl::Status Make(BoundInstruction* bound, Run run, bool asynchronous = false) {
    bound->work.label = bound->label.c_str();
    bound->work.times = &bound->times;
    if (asynchronous) bound->work.completion = &bound->completion;
    bound->work.run = run;
    if (guard_ == nullptr) return absl::OkStatus();
    bound->work.run = [this, bound, run]() -> absl::Status {
      guard_->Begin(*bound->instruction);
      return run();
    };
    bound->work.done = [this, bound] { guard_->End(*bound->instruction); };
    return absl::OkStatus();
  }

  absl::Status BindCalls(BoundInstruction* bound) {
    for (const Call& call : bound->instruction->calls) {
      BoundCall b;
      ASSIGN_OR_RETURN(b.kernel, resources_.kernels->Get(schedule_.kernels[static_cast<size_t>(call.kernel)]));
      for (const Operand& operand : call.inputs) b.inputs.push_back(Address(operand));
      for (const Operand& operand : call.outputs) b.outputs.push_back(Address(operand));
      b.scratch = Address(call.scratch);
      b.accumulate = call.accumulate;
      bound->calls.push_back(std::move(b));
    }
    return absl::OkStatus();
  }

  // A gather's first part: this rank's master parameters, in the compute type, to their place in the whole unit.
  absl::Status BindCast(BoundInstruction* bound) {
    const Instruction& i = *bound->instruction;
    std::byte* own = Address(i.to) + rank_ * i.count * SizeOf(dtype_);
    const std::byte* master = Address(i.from);
    if (own == master) return absl::OkStatus();
    ASSIGN_OR_RETURN(BoundCall cast, CastCall(resources_.copy_kernels, master, own, i.count));
    bound->calls.push_back(std::move(cast));
    return absl::OkStatus();
  }

  absl::StatusOr<BoundCall> CastCall(KernelSet* kernels, const std::byte* from, std::byte* to, int64_t elements) const {
    BoundCall call;
    ASSIGN_OR_RETURN(call.kernel, kernels->Get({"cast",
                                                {{DType::kFloat32, {elements}}},
                                                {{dtype_, {elements}}},
                                                Attributes().Set("dtype", static_cast<int64_t>(dtype_))}));
    call.inputs.push_back(from);
    call.outputs.push_back(to);
    return call;
  }

  // The factor of the update, from the sums over all ranks: the same on every rank.
  absl::Status BindFinish(BoundInstruction* bound) {
    BoundCall call;
    ASSIGN_OR_RETURN(call.kernel, resources_.kernels->Get({"step_factor",
                                                           {{DType::kFloat64, {kScalarCount}}},
                                                           {{DType::kFloat64, {2}}},
                                                           Attributes().Set("clip_norm", optimizer_.clip_norm)}));
    call.inputs.push_back(Address({schedule_.scalars, 0, 0}));
    call.outputs.push_back(reinterpret_cast<std::byte*>(&exchange_.values()->gradient_scale));
    bound->calls.push_back(std::move(call));
    return absl::OkStatus();
  }

  void BindReduce(const BoundInstruction& bound) {
    gradient_shard_[static_cast<size_t>(bound.instruction->unit)] = Address(bound.instruction->to);
  }

  absl::Status BindUpdate(BoundInstruction* bound) {
    const Instruction& i = *bound->instruction;
    const auto unit = static_cast<size_t>(i.unit);
    const Unit& u = units_.units[unit];
    const bool whole = i.count == u.whole_elements;
    const UnitState& state = schedule_.unit_states[unit];
    for (const UpdateCall& call : UpdateCalls(u, whole ? 0 : rank_ * i.count, i.count, optimizer_)) {
      BoundCall b;
      ASSIGN_OR_RETURN(b.kernel, resources_.kernels->Get(call.spec));
      b.inputs.push_back(Address(i.from) + call.first * 4);
      b.outputs.push_back(Address(i.to) + call.first * 4);
      for (const Operand& moment : state.moments) b.outputs.push_back(Address(moment) + call.first * 4);
      bound->calls.push_back(std::move(b));
    }
    // Under `none` every rank holds the whole master, and the copy in the compute type is a cast away: only there does
    // the schedule name that copy as written (with one rank a shard is as large as the unit under any sharding).
    const bool casts = std::any_of(i.accesses.begin(), i.accesses.end(),
                                   [&](const Access& access) { return access.item == state.whole.item; });
    if (casts && dtype_ == DType::kBFloat16) {
      ASSIGN_OR_RETURN(BoundCall cast, CastCall(resources_.kernels, Address(i.to), Address(state.whole), i.count));
      bound->calls.push_back(std::move(cast));
    }
    if (gradient_shard_[unit] == nullptr) gradient_shard_[unit] = Address(i.from);
    return Make(bound, [this, bound] { return RunCalls(bound); });
  }

  // --- Running --------------------------------------------------------------------------------------------------

  void IssueAll() {
    for (size_t i = 0; i < bound_.size(); ++i) Issue(static_cast<int32_t>(i));
  }

  // Once; and again for a batch that stands elsewhere in the global step, for that is part of what is kept.
  absl::Status Capture() {
    const std::pair<int64_t, int64_t> place = {input_.first_sequence, input_.sequence_stride};
    if (captured_ >= 0 && place == captured_place_) return absl::OkStatus();
    RETURN_IF_ERROR(resources_.device->BeginCapture());
    IssueAll();
    ASSIGN_OR_RETURN(captured_, resources_.device->EndCapture());
    captured_place_ = place;
    for (BoundInstruction& bound : bound_) bound.times = {};  // those of the first Run
    return absl::OkStatus();
  }

  void Issue(int32_t index) {
    const Instruction& instruction = schedule_.instructions[static_cast<size_t>(index)];
    BoundInstruction& bound = bound_[static_cast<size_t>(index)];
    Device& device = *resources_.device;
    for (const int32_t wait : instruction.waits) device.Wait(instruction.stream, wait);
    device.Enqueue(instruction.stream, &bound.work);
    if (bound.recorded) device.Record(instruction.stream, index);
  }

  absl::Status RunCalls(BoundInstruction* bound) const {
    const Instruction& instruction = *bound->instruction;
    const int64_t micro_batch = std::max(instruction.micro_batch, 0);
    for (const BoundCall& call : bound->calls) {
      call.kernel->Run({.inputs = call.inputs,
                        .outputs = call.outputs,
                        .scratch = call.scratch,
                        .accumulate = call.accumulate,
                        .step = exchange_.values(),
                        .block = instruction.block,
                        .first_sequence = input_.first_sequence + micro_batch * input_.sequence_stride});
    }
    return absl::OkStatus();
  }

  absl::Status Copy(const Instruction& i) const {
    const auto bytes = static_cast<size_t>(i.count);
    if (i.kind == InstructionKind::kOffload) {
      const Item& host = schedule_.items[static_cast<size_t>(i.to.item)];
      return resources_.host->Write(host.offset + i.to.offset, {Address(i.from), bytes});
    }
    const Item& host = schedule_.items[static_cast<size_t>(i.from.item)];
    return resources_.host->Read(host.offset + i.from.offset, {Address(i.to), bytes});
  }

  absl::Status Gather(BoundInstruction* bound) {
    RETURN_IF_ERROR(RunCalls(bound));
    return AllGather(bound, SizeOf(dtype_));
  }

  absl::Status AllGather(BoundInstruction* bound, int64_t element_bytes) {
    const Instruction& i = *bound->instruction;
    resources_.communicator->AllGather(
        Sequence::kGather,
        {.label = bound->label.c_str(), .whole = Address(i.to), .shard_bytes = i.count * element_bytes},
        &bound->completion);
    return absl::OkStatus();
  }

  absl::Status Reduce(BoundInstruction* bound) {
    const Instruction& i = *bound->instruction;
    resources_.communicator->ReduceScatter(Sequence::kReduce,
                                           {.label = bound->label.c_str(),
                                            .whole = reinterpret_cast<const float*>(Address(i.from)),
                                            .shard = reinterpret_cast<float*>(Address(i.to)),
                                            .shard_elements = i.count,
                                            .accumulate = i.accumulate},
                                           &bound->completion);
    return absl::OkStatus();
  }

  absl::Status SumScalars(BoundInstruction* bound) {
    resources_.communicator->AllReduce(
        Sequence::kReduce, bound->label.c_str(),
        {reinterpret_cast<double*>(Address({schedule_.scalars, 0, 0})), static_cast<size_t>(kScalarCount)},
        &bound->completion);
    return absl::OkStatus();
  }

  StepResult Collect(double seconds) {
    StepResult r;
    r.seconds = seconds;
    r.loss = loss_;
    r.gradient_norm = norm_;
    r.counted_labels = training_ ? total_count_ : input_.counted_labels;
    r.updated = training_ && total_count_ > 0;
    for (size_t index = 0; index < bound_.size(); ++index) {
      const BoundInstruction& bound = bound_[index];
      const Instruction& i = *bound.instruction;
      timeline_.start_ns[index] = bound.times.start_ns;
      timeline_.end_ns[index] = bound.times.end_ns;
      const double run_seconds = 1e-9 * static_cast<double>(bound.times.end_ns - bound.times.start_ns);
      r.peak_device_bytes = std::max(r.peak_device_bytes, bound.highest_device_byte);
      r.peak_host_bytes = std::max(r.peak_host_bytes, bound.highest_host_byte);
      if (i.kind == InstructionKind::kGather) ++r.gathers;
      if (i.kind == InstructionKind::kOffload) r.offloaded_bytes += i.count;
      if (i.kind == InstructionKind::kForward) r.forward_seconds += run_seconds;
      if (i.kind == InstructionKind::kRecompute) {
        r.recompute_seconds += run_seconds;
        r.recomputed_flops += i.flops;
      } else {
        r.flops += i.flops;
      }
    }
    const StreamStatistics statistics = resources_.device->Statistics();
    const auto& waited = statistics.waited_seconds[static_cast<size_t>(Stream::kCompute)];
    r.exposed_communication_seconds =
        waited[static_cast<size_t>(Stream::kGather)] + waited[static_cast<size_t>(Stream::kReduce)];
    r.exposed_transfer_seconds =
        waited[static_cast<size_t>(Stream::kOffload)] + waited[static_cast<size_t>(Stream::kReload)];
    return r;
  }

  const Schedule& schedule_;
  const UnitLayout& units_;
  const DType dtype_;
  const OptimizerSettings optimizer_;
  const StepResources resources_;
  const int rank_;
  const bool training_;
  std::unique_ptr<MemoryGuard> guard_;
  std::vector<BoundInstruction> bound_;
  std::vector<std::byte*> gradient_shard_ = std::vector<std::byte*>(units_.units.size(), nullptr);  // by unit

  StepExchange exchange_;
  bool has_run_ = false;
  int captured_ = -1;                           // the device's number of the step as a whole
  std::pair<int64_t, int64_t> captured_place_;  // first sequence, stride
  StepInput input_;
  double loss_ = 0;
  double norm_ = 0;
  int64_t total_count_ = 0;
  Timeline timeline_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> Step::Create(const Schedule& schedule, const UnitLayout& units, DType dtype,
                                                   const OptimizerSettings& optimizer, const StepResources& resources) {
  auto step = std::make_unique<ScheduledStep>(schedule, units, dtype, optimizer, resources);
  RETURN_IF_ERROR(step->TakeMemory());
  RETURN_IF_ERROR(step->Bind());
  return step;
}

}  // namespace reprise
