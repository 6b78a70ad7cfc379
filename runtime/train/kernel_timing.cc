#include "runtime/train/kernel_timing.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace reprise {
KernelTiming::KernelTiming(const Schedule& schedule, Device* device)
    : schedule_(schedule), device_(*device), samples_(schedule.kernels.size()) {}

std::byte* KernelTiming::Address(const Operand& operand) const {
  if (operand.item < 0) return nullptr;
  return device_.arena() + schedule_.items[static_cast<size_t>(operand.item)].offset + operand.offset;
}

absl::Status KernelTiming::Bind(KernelSet& kernels) {
  ASSIGN_OR_RETURN(std::byte* const place, device_.TakeMemory(sizeof(StepValues)));
  const StepValues values{.gradient_scale = 0};
  RETURN_IF_ERROR(device_.CopyToDevice(place, {reinterpret_cast<const std::byte*>(&values), sizeof(values)}));
  values_ = reinterpret_cast<const StepValues*>(place);
  for (const Instruction& instruction : schedule_.instructions) {
    for (const Call& call : instruction.calls) {
      TimedCall& timed = calls_.emplace_back();
      ASSIGN_OR_RETURN(timed.kernel, kernels.Get(schedule_.kernels[static_cast<size_t>(call.kernel)]));
      timed.spec = call.kernel;
      for (const Operand& operand : call.inputs) timed.inputs.push_back(Address(operand));
      for (const Operand& operand : call.outputs) timed.outputs.push_back(Address(operand));
      timed.scratch = Address(call.scratch);
      timed.accumulate = call.accumulate;
      timed.block = instruction.block;
      timed.work.times = &timed.times;
      timed.work.run = [this, &timed] {
        timed.kernel->Run({.inputs = timed.inputs,
                           .outputs = timed.outputs,
                           .scratch = timed.scratch,
                           .accumulate = timed.accumulate,
                           .step = values_,
                           .block = timed.block});
        return absl::OkStatus();
      };
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> KernelTiming::Pass() { return Run(calls_.size(), /*keep_samples=*/true); }

absl::StatusOr<int64_t> KernelTiming::PassOver(size_t calls) { return Run(calls, /*keep_samples=*/false); }

void KernelTiming::DropSamples() {
  for (std::vector<int64_t>& samples : samples_) samples.clear();
}

size_t KernelTiming::CallsWithin(int64_t nanoseconds) const {
  int64_t sum = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const std::vector<int64_t>& samples = samples_[static_cast<size_t>(calls_[i].spec)];
    sum += samples.empty() ? 0 : samples.back();
    if (sum > nanoseconds) return std::max<size_t>(i, 1);
  }
  return calls_.size();
}

absl::StatusOr<int64_t> KernelTiming::Run(size_t calls, bool keep_samples) {
  calls = std::min(calls, calls_.size());
  if (calls == 0) return 0;
  device_.ResetStatistics();
  for (size_t i = 0; i < calls; ++i) device_.Enqueue(Stream::kCompute, &calls_[i].work);
  RETURN_IF_ERROR(device_.Synchronize());
  for (size_t i = 0; keep_samples && i < calls; ++i) {
    const WorkTimes& times = calls_[i].times;
    samples_[static_cast<size_t>(calls_[i].spec)].push_back(times.end_ns - times.start_ns);
  }
  return calls_[calls - 1].times.end_ns - calls_[0].times.start_ns;
}

std::map<std::string, int64_t> KernelTiming::Medians() const {
  std::map<std::string, int64_t> times;
  for (size_t k = 0; k < samples_.size(); ++k) {
    std::vector<int64_t> samples = samples_[k];
    if (samples.empty()) continue;
    const auto middle = samples.begin() + static_cast<int64_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    times[schedule_.kernels[k].ToString()] = *middle;
  }
  return times;
}

}  // namespace reprise
