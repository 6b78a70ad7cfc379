// Kernel timing: what each kernel of a schedule costs on this machine.
//
//   KernelTiming timing(probe.schedule, device);             // an arena of at least the schedule's size
//   RETURN_IF_ERROR(timing.Bind(kernels));
//   ASSIGN_OR_RETURN(int64_t nanoseconds, timing.Pass());    // of all compute instructions
//   timing.Medians().at(spec.ToString());
//
// Kernels run in the schedule's own order on the device's compute stream, so that each finds in the caches about what a
// step would leave there. Their inputs are what the arena holds, zeros at first: no kernel's time depends on values.
#ifndef REPRISE_RUNTIME_TRAIN_KERNEL_TIMING_H_
#define REPRISE_RUNTIME_TRAIN_KERNEL_TIMING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/device.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/kernel_set.h"

namespace reprise {

class KernelTiming {
 public:
  // Both must outlive it.
  KernelTiming(const Schedule& schedule, Device* device);

  // Once, before Pass. `kernels` must have been made for the device and its threads.
  absl::Status Bind(KernelSet& kernels);

  // Runs every call of the compute instructions once; returns how long that took.
  absl::StatusOr<int64_t> Pass();
  // The same for the first `calls` of them, without a sample: for what the caller disturbs on purpose.
  absl::StatusOr<int64_t> PassOver(size_t calls);
  // How many of the first calls take about so long together, by the samples so far; at least one.
  size_t CallsWithin(int64_t nanoseconds) const;
  void DropSamples();
  // What the kernels read of their step: a gradient that counts nothing.
  const StepValues* values() const { return values_; }

  // Nanoseconds by KernelSpec::ToString(): the median over all calls and kept passes.
  std::map<std::string, int64_t> Medians() const;

 private:
  struct TimedCall {
    const Kernel* kernel = nullptr;
    int32_t spec = 0;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    std::byte* scratch = nullptr;
    uint32_t accumulate = 0;
    int32_t block = 0;
    Work work;
    WorkTimes times;
  };

  std::byte* Address(const Operand& operand) const;
  absl::StatusOr<int64_t> Run(size_t calls, bool keep_samples);

  const Schedule& schedule_;
  Device& device_;
  const StepValues* values_ = nullptr;         // of the device
  std::deque<TimedCall> calls_;                // each work refers to its own
  std::vector<std::vector<int64_t>> samples_;  // nanoseconds, by kernel of the schedule
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_KERNEL_TIMING_H_
