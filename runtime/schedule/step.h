// Step: runs a schedule on a device. It makes no decisions: which kernel, which address and which order stand in the
// schedule. Built once; Run allocates nothing.
//
//   ASSIGN_OR_RETURN(auto step, Step::Create(schedule, units, optimizer, {device, host, communicator, &kernels}));
//   ... fill step->tokens(m), step->labels(m) ...
//   ASSIGN_OR_RETURN(StepResult result, step->Run({.seed = 1, .step = 0, .learning_rate = 1e-3, .counted_labels = n}));
//
// Thread: the issuing thread of the device. All ranks create and run their steps together.
#ifndef REPRISE_RUNTIME_SCHEDULE_STEP_H_
#define REPRISE_RUNTIME_SCHEDULE_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "device/device.h"
#include "offload/host_store.h"
#include "runtime/fsdp/unit.h"
#include "runtime/schedule/optimizer_settings.h"
#include "runtime/schedule/schedule.h"
#include "runtime/schedule/timeline.h"
#include "runtime/tensor/kernel_set.h"

namespace reprise {

// What a step runs on. Everything outlives the step.
struct StepResources {
  Device* device = nullptr;
  HostStore* host = nullptr;  // may be null where the schedule offloads nothing
  Communicator* communicator = nullptr;
  KernelSet* kernels = nullptr;       // of the compute stream
  KernelSet* copy_kernels = nullptr;  // single-threaded: casts on the gather stream
  bool capture = false;               // the second Run and later ones start the step as a whole (Device::Replay)
  bool poison = false;                // overwrite what is given back (seeded orders only: needs one thread)
};

struct StepInput {
  uint64_t seed = 0;
  int64_t step = 0;  // 0-based
  double learning_rate = 0;
  int64_t counted_labels = 0;   // of this rank's micro-batches
  int64_t first_sequence = 0;   // of this rank's first micro-batch in the global step
  int64_t sequence_stride = 0;  // between this rank's micro-batches
};

struct StepResult {
  double loss = 0;             // mean over the counted labels of all ranks; evaluation: this rank's sum
  double gradient_norm = 0;    // of the mean loss, before clipping
  int64_t counted_labels = 0;  // of all ranks
  bool updated = false;        // false where no label counted
  double seconds = 0;
  double forward_seconds = 0;  // of kernels, without waiting
  double recompute_seconds = 0;
  double exposed_communication_seconds = 0;
  double exposed_transfer_seconds = 0;
  int64_t gathers = 0;
  int64_t offloaded_bytes = 0;
  int64_t recomputed_flops = 0;
  int64_t flops = 0;              // of forward and backward, without recompute
  int64_t peak_device_bytes = 0;  // highest arena byte that an instruction was handed
  int64_t peak_host_bytes = 0;
};

class Step {
 public:
  static absl::StatusOr<std::unique_ptr<Step>> Create(const Schedule& schedule, const UnitLayout& units, DType dtype,
                                                      const OptimizerSettings& optimizer,
                                                      const StepResources& resources);
  virtual ~Step() = default;

  // Where the batch of the next Run is to stand. Empty for a kind that the schedule does not read.
  virtual absl::Span<std::byte> data(DataKind kind, int micro_batch) = 0;
  absl::Span<int32_t> tokens(int micro_batch) { return Integers(DataKind::kTokens, micro_batch); }
  absl::Span<int32_t> labels(int micro_batch) { return Integers(DataKind::kLabels, micro_batch); }

  // Runs every instruction and waits for the end. OutOfRange where loss or norm is not finite: nothing was updated.
  virtual absl::StatusOr<StepResult> Run(const StepInput& input) = 0;

  // When each instruction of the last Run that returned OK began and ended on this rank, from the beginning of that
  // Run. A collective begins when this rank starts it, and ends when this rank's part is complete. All zero where the
  // step was started as a whole.
  virtual const Timeline& timeline() const = 0;

  // This rank's shard of a unit's summed gradients of the last Run, not yet divided by the count. Valid until the next
  // Run of any step on the device.
  virtual absl::Span<const float> gradient_shard(int32_t unit) const = 0;

 private:
  absl::Span<int32_t> Integers(DataKind kind, int micro_batch) {
    const absl::Span<std::byte> bytes = data(kind, micro_batch);
    return {reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
  }
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_STEP_H_
