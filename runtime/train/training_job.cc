#include "runtime/train/training_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/schedule/checker.h"
#include "runtime/train/arena_floats.h"
#include "runtime/train/backend.h"
#include "runtime/train/machine_timing.h"

namespace reprise {
namespace {

// Streams wait longer than collectives, whose errors say more: which rank did not come, and to what.
constexpr double kGraceSeconds = 2;

absl::Status CheckSameSchedule(Communicator& communicator, const Schedule& schedule) {
  ASSIGN_OR_RETURN(const std::vector<std::string> hashes,
                   AllGatherText(communicator, absl::StrCat(absl::Hex(schedule.Hash()))));
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank,
                     " compiled another schedule than rank 0; start all ranks from one build with the same settings"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelOptions> KernelsOf(const MachineOptions& machine) {
  ASSIGN_OR_RETURN(const Backend* backend, FindBackend(machine.device));
  RETURN_IF_ERROR(backend->Check());
  return KernelOptions{.kind = machine.device == "cpu" ? machine.kernels : backend->kernels(),
                       .threads = machine.threads};
}

TrainingJob::TrainingJob(const Backend& backend, const KernelOptions& kernels, Communicator& communicator)
    : backend_(backend),
      communicator_(communicator),
      kernels_(kernels),
      copy_kernels_({.kind = kernels.kind, .threads = 1}) {}

absl::StatusOr<std::unique_ptr<TrainingJob>> TrainingJob::Create(const Model& model, const JobOptions& options,
                                                                 const MachineOptions& machine,
                                                                 Communicator& communicator) {
  const absl::StatusOr<KernelOptions> kernels = KernelsOf(machine);
  RETURN_IF_ERROR(Agree(communicator, kernels.status()));
  ASSIGN_OR_RETURN(const Backend* backend, FindBackend(machine.device));
  RETURN_IF_ERROR(Agree(communicator, backend->Select(communicator)));
  if (machine.cuda_graphs) RETURN_IF_ERROR(backend->CheckCapture(communicator));
  std::unique_ptr<TrainingJob> job(new TrainingJob(*backend, *kernels, communicator));
  JobOptions timed = options;
  if (options.checkpoint == "auto" && options.times == nullptr && !options.plan.has_value()) {
    ASSIGN_OR_RETURN(MachineTimes times, TimeMachine(model, options, machine, communicator.size(), communicator));
    timed.times = std::make_shared<const MachineTimes>(std::move(times));
  }
  absl::StatusOr<std::unique_ptr<JobPlan>> plan = MakeJobPlan(model, timed, communicator.size(), job->kernels_);
  RETURN_IF_ERROR(Agree(communicator, plan.status()));
  job->plan_ = *std::move(plan);
  RETURN_IF_ERROR(CheckSameSchedule(communicator, job->plan_->schedule));
  RETURN_IF_ERROR(Check(job->plan_->schedule));
  RETURN_IF_ERROR(Check(job->plan_->evaluation_schedule));
  for (const Unit& unit : job->plan_->units.units) {
    for (const UnitParameter& p : unit.parameters) job->parameters_.push_back(p.parameter);
  }
  RETURN_IF_ERROR(Agree(communicator, job->TakeMemory(machine)));
  RETURN_IF_ERROR(Agree(communicator, job->MakeCommunicator(machine)));
  RETURN_IF_ERROR(Agree(communicator, job->MakeSteps(machine)));
  return job;
}

absl::Status TrainingJob::TakeMemory(const MachineOptions& machine) {
  ASSIGN_OR_RETURN(device_,
                   backend_.MakeDevice(communicator_, {.arena_bytes = plan_->device_bytes(),
                                                       .threads = machine.threads,
                                                       .stream_order = machine.stream_order,
                                                       .deadline_seconds = machine.deadline_seconds + kGraceSeconds,
                                                       .touch_arena = machine.touch_arena}));
  if (plan_->host_bytes() > 0) {
    ASSIGN_OR_RETURN(host_, backend_.MakeHostStore(plan_->host_bytes()));
  }
  return absl::OkStatus();
}

absl::Status TrainingJob::MakeCommunicator(const MachineOptions& machine) {
  ASSIGN_OR_RETURN(device_communicator_,
                   backend_.MakeCommunicator(communicator_, *device_, {.deadline_seconds = machine.deadline_seconds}));
  return absl::OkStatus();
}

absl::Status TrainingJob::MakeSteps(const MachineOptions& machine) {
  const StepResources resources{.device = device_.get(),
                                .host = host_.get(),
                                .communicator = &collectives(),
                                .kernels = &kernels_,
                                .copy_kernels = &copy_kernels_,
                                .capture = machine.cuda_graphs,
                                .poison = machine.stream_order.random};
  ASSIGN_OR_RETURN(
      step_, Step::Create(plan_->schedule, plan_->units, plan_->options.dtype, plan_->options.optimizer, resources));
  if (plan_->options.evaluates) {
    ASSIGN_OR_RETURN(evaluation_, Step::Create(plan_->evaluation_schedule, plan_->units, plan_->options.dtype,
                                               plan_->options.optimizer, resources));
  }
  return absl::OkStatus();
}

std::byte* TrainingJob::Address(const Operand& operand) const {
  return device_->arena() + plan_->schedule.items[static_cast<size_t>(operand.item)].offset + operand.offset +
         communicator_.rank() * operand.rank_stride;
}

absl::Status TrainingJob::SetParameters(const ParameterSource& source) {
  const bool whole = plan_->options.sharding == Sharding::kNone;
  absl::Status status;
  for (size_t u = 0; u < plan_->units.units.size() && status.ok(); ++u) {
    const Unit& unit = plan_->units.units[u];
    const UnitState& state = plan_->schedule.unit_states[u];
    const int64_t count = whole ? unit.whole_elements : unit.shard_elements;
    const int64_t begin = whole ? 0 : communicator_.rank() * unit.shard_elements;
    const ArenaFloats master(*device_, Address(state.master), count);
    status = master.FillZero();  // padding is zero
    for (const Operand& moment : state.moments) {
      status.Update(ArenaFloats(*device_, Address(moment), count).FillZero());
    }
    for (const UnitRange& range : RangesOf(unit, begin, begin + count)) {
      if (!status.ok()) break;
      status = master.Fill(range.begin - begin, range.end - range.begin, [&](int64_t first, absl::Span<float> out) {
        return source(*range.parameter->parameter, range.begin - range.parameter->offset + first, out);
      });
    }
  }
  RETURN_IF_ERROR(Agree(communicator_, status));
  return Publish();
}

absl::Status TrainingJob::Publish() {
  const DType dtype = plan_->options.dtype;
  const bool whole = plan_->options.sharding == Sharding::kNone;
  if (plan_->options.sharding == Sharding::kFull) return absl::OkStatus();
  for (size_t u = 0; u < plan_->units.units.size(); ++u) {
    const Unit& unit = plan_->units.units[u];
    const UnitState& state = plan_->schedule.unit_states[u];
    const int64_t count = whole ? unit.whole_elements : unit.shard_elements;
    std::byte* to = Address(state.whole) + (whole ? 0 : communicator_.rank() * count * SizeOf(dtype));
    if (dtype == DType::kBFloat16) RETURN_IF_ERROR(CastToWhole(state.master, to, count));
    if (!whole) RETURN_IF_ERROR(GatherWhole(unit, state.whole));
  }
  return absl::OkStatus();
}

absl::Status TrainingJob::CastToWhole(const Operand& master, std::byte* whole, int64_t count) {
  const DType dtype = plan_->options.dtype;
  const KernelSpec cast{
      "cast", {{DType::kFloat32, {count}}}, {{dtype, {count}}}, Attributes().Set("dtype", static_cast<int64_t>(dtype))};
  ASSIGN_OR_RETURN(const Kernel* kernel, copy_kernels_.Get(cast));
  const std::byte* input = Address(master);
  Work work;
  work.run = [&] {
    kernel->Run({.inputs = {&input, 1}, .outputs = {&whole, 1}});
    return absl::OkStatus();
  };
  device_->Enqueue(Stream::kGather, &work);
  return device_->Synchronize();
}

absl::Status TrainingJob::GatherWhole(const Unit& unit, const Operand& whole) {
  Completion done;
  Work work;
  work.completion = &done;
  work.run = [&] {
    collectives().AllGather(Sequence::kGather,
                            {.label = unit.name.c_str(),
                             .whole = Address(whole),
                             .shard_bytes = unit.shard_elements * SizeOf(plan_->options.dtype)},
                            &done);
    return absl::OkStatus();
  };
  device_->Enqueue(Stream::kGather, &work);
  return device_->Synchronize();
}

Batch TrainingJob::batch(int micro_batch) {
  Batch batch;
  for (int kind = 0; kind < kDataKindCount; ++kind) {
    batch.data[static_cast<size_t>(kind)] = data(static_cast<DataKind>(kind), micro_batch);
  }
  return batch;
}

absl::StatusOr<double> TrainingJob::Evaluate() {
  REPRISE_CHECK(evaluation_ != nullptr) << "the job was made without options.evaluates";
  // Where the host fills the arena itself, both schedules have the batch at the same address.
  for (int kind = 0; kind < kDataKindCount; ++kind) {
    const absl::Span<std::byte> from = step_->data(static_cast<DataKind>(kind), 0);
    const absl::Span<std::byte> to = evaluation_->data(static_cast<DataKind>(kind), 0);
    if (from.data() != to.data()) std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
  }
  ASSIGN_OR_RETURN(const StepResult result, evaluation_->Run({}));
  return result.loss;
}

std::pair<int32_t, const UnitParameter*> TrainingJob::Locate(const Parameter& parameter) const {
  for (size_t u = 0; u < plan_->units.units.size(); ++u) {
    for (const UnitParameter& p : plan_->units.units[u].parameters) {
      if (p.parameter == &parameter) return {static_cast<int32_t>(u), &p};
    }
  }
  REPRISE_CHECK(false) << parameter.name() << " is not in this job";
  return {};
}

absl::Status TrainingJob::Collect(const Unit& unit, const UnitParameter& p, const float* shard, int64_t first,
                                  absl::Span<float> out) {
  const int64_t from = p.offset + first;  // in the unit
  absl::Status status;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const int64_t begin = std::max(from, rank * unit.shard_elements);
    const int64_t end = std::min(from + static_cast<int64_t>(out.size()), (rank + 1) * unit.shard_elements);
    if (begin >= end) continue;
    float* to = out.data() + (begin - from);
    const size_t bytes = static_cast<size_t>(end - begin) * sizeof(float);
    // Also where it can't be read, the others wait in the broadcast.
    if (rank == communicator_.rank()) {
      status.Update(
          device_->CopyToHost({reinterpret_cast<std::byte*>(to), bytes},
                              reinterpret_cast<const std::byte*>(shard + (begin - rank * unit.shard_elements))));
    }
    RETURN_IF_ERROR(
        Broadcast(communicator_, p.parameter->name().c_str(), {reinterpret_cast<std::byte*>(to), bytes}, rank));
  }
  return status;
}

absl::Status TrainingJob::ReadParameter(const Parameter& parameter, absl::Span<float> out) {
  return ReadParameterRange(parameter, 0, out);
}

absl::Status TrainingJob::ReadParameterRange(const Parameter& parameter, int64_t first, absl::Span<float> out) {
  REPRISE_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= parameter.elements()) << parameter.name();
  const auto [unit, place] = Locate(parameter);
  const UnitState& state = plan_->schedule.unit_states[static_cast<size_t>(unit)];
  return Collect(plan_->units.units[static_cast<size_t>(unit)], *place,
                 reinterpret_cast<const float*>(Address(state.master_shard)), first, out);
}

bool TrainingJob::IsTrained(const Parameter& parameter) const {
  return plan_->units.units[static_cast<size_t>(Locate(parameter).first)].trained;
}

absl::Status TrainingJob::ReadGradient(const Parameter& parameter, double factor, absl::Span<float> out) {
  const auto [unit, place] = Locate(parameter);
  REPRISE_CHECK(plan_->units.units[static_cast<size_t>(unit)].trained) << parameter.name() << " is frozen";
  RETURN_IF_ERROR(
      Collect(plan_->units.units[static_cast<size_t>(unit)], *place, step_->gradient_shard(unit).data(), 0, out));
  for (float& value : out) value = static_cast<float>(value * factor);
  return absl::OkStatus();
}

}  // namespace reprise
