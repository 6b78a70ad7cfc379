// TrainingJob: one rank of a training job, from a plan to steps. What `reprise train` runs, and what a program with a
// training loop of its own calls.
//
//   ASSIGN_OR_RETURN(auto job, TrainingJob::Create(model, options, machine, communicator));
//   RETURN_IF_ERROR(job->SetParameters(RandomParameters(seed)));
//   job->tokens(0), job->labels(0)     // fill: [micro_batch * sequence_length], labels -100 where not counted
//   ASSIGN_OR_RETURN(StepResult result, job->Step({.step = 0, .learning_rate = 1e-3, .counted_labels = n}));
//
// All ranks make the same calls in the same order. For one thread.
#ifndef REPRISE_RUNTIME_TRAIN_TRAINING_JOB_H_
#define REPRISE_RUNTIME_TRAIN_TRAINING_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "device/device.h"
#include "offload/host_store.h"
#include "runtime/schedule/step.h"
#include "runtime/train/batch.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/parameter_source.h"

namespace reprise {

class Backend;

struct MachineOptions {
  std::string device = "cpu";  // or "cuda"
  int threads = 1;
  StreamOrder stream_order = {};  // cpu only
  bool cuda_graphs = false;       // cuda only: steps after the first are started as a whole
  double deadline_seconds = 300;
  KernelKind kernels = KernelKind::kCpu;  // of the cpu
  bool touch_arena = true;                // before the first step; else pages come as steps first write them
};

// Of the compute stream of that machine. Errors of FindBackend and Backend::Check.
absl::StatusOr<KernelOptions> KernelsOf(const MachineOptions& machine);

class TrainingJob {
 public:
  // Plans, compares the schedule's hash over ranks, and takes all memory. Errors of MakeJobPlan, the backend and the
  // communicator.
  static absl::StatusOr<std::unique_ptr<TrainingJob>> Create(const Model& model, const JobOptions& options,
                                                             const MachineOptions& machine, Communicator& communicator);

  const JobPlan& plan() const { return *plan_; }
  const Device& device() const { return *device_; }
  const std::vector<const Parameter*>& parameters() const { return parameters_; }  // each once, in order of units

  bool IsTrained(const Parameter& parameter) const;  // false: frozen

  // Sets every parameter, and optimizer state to zero.
  absl::Status SetParameters(const ParameterSource& source);

  // The batch of the next Step or Evaluate, by micro-batch; kept between them. Empty for a kind that the model does not
  // read.
  absl::Span<std::byte> data(DataKind kind, int micro_batch) { return step_->data(kind, micro_batch); }
  Batch batch(int micro_batch);  // of all kinds
  absl::Span<int32_t> tokens(int micro_batch) { return step_->tokens(micro_batch); }
  absl::Span<int32_t> labels(int micro_batch) { return step_->labels(micro_batch); }
  absl::StatusOr<StepResult> Step(const StepInput& input) { return step_->Run(input); }
  const Timeline& timeline() const { return step_->timeline(); }  // of the last Step

  // Forward only, on micro-batch 0, for options.evaluates: the sum of -log p over the labels of this rank that count.
  absl::StatusOr<double> Evaluate();

  // Whole, on every rank; collective. The gradients are those of the last Step, summed over ranks and micro-batches and
  // multiplied by `factor`; valid until the next Step or Evaluate. A frozen parameter has none.
  absl::Status ReadParameter(const Parameter& parameter, absl::Span<float> out);
  // Elements [first, first + out.size()) of it.
  absl::Status ReadParameterRange(const Parameter& parameter, int64_t first, absl::Span<float> out);
  absl::Status ReadGradient(const Parameter& parameter, double factor, absl::Span<float> out);

 private:
  TrainingJob(const Backend& backend, const KernelOptions& kernels, Communicator& communicator);
  std::byte* Address(const Operand& operand) const;
  absl::Status TakeMemory(const MachineOptions& machine);
  absl::Status MakeCommunicator(const MachineOptions& machine);
  // Of the device's memory.
  Communicator& collectives() const { return device_communicator_ != nullptr ? *device_communicator_ : communicator_; }
  absl::Status MakeSteps(const MachineOptions& machine);
  // Brings the copies in the compute type up to date with the masters.
  absl::Status Publish();
  absl::Status CastToWhole(const Operand& master, std::byte* whole, int64_t count);
  absl::Status GatherWhole(const Unit& unit, const Operand& whole);
  // Copies elements of a parameter, from `first` on, from the ranks that own each part of its unit.
  absl::Status Collect(const Unit& unit, const UnitParameter& p, const float* shard, int64_t first,
                       absl::Span<float> out);
  std::pair<int32_t, const UnitParameter*> Locate(const Parameter& parameter) const;

  const Backend& backend_;
  Communicator& communicator_;
  KernelSet kernels_;
  KernelSet copy_kernels_;
  std::unique_ptr<JobPlan> plan_;
  std::vector<const Parameter*> parameters_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<HostStore> host_;
  std::unique_ptr<Communicator> device_communicator_;  // null: communicator_ reaches the device's memory
  std::unique_ptr<reprise::Step> step_;
  std::unique_ptr<reprise::Step> evaluation_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_TRAINING_JOB_H_
