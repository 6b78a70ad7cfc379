#include "runtime/train/kernel_timing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace

KernelTiming::KernelTiming(const Schedule& schedule, Device* device)
    : schedule_(schedule), device_(*device), samples_(schedule.kernels.size()) {}

std::byte* KernelTiming::Address(const Operand& operand) const {
  if (operand.item < 0) return nullptr;
  return device_.arena() + schedule_.items[static_cast<size_t>(operand.item)].offset + operand.offset;
}

absl::Status KernelTiming::Bind(KernelSet& kernels) {
  for (const Instruction& instruction : schedule_.instructions) {
    for (const Call& call : instruction.calls) {
      TimedCall timed;
      ASSIGN_OR_RETURN(timed.kernel, kernels.Get(schedule_.kernels[static_cast<size_t>(call.kernel)]));
      timed.spec = call.kernel;
      for (const Operand& operand : call.inputs) timed.inputs.push_back(Address(operand));
      for (const Operand& operand : call.outputs) timed.outputs.push_back(Address(operand));
      timed.scratch = Address(call.scratch);
      timed.accumulate = call.accumulate;
      timed.block = instruction.block;
      calls_.push_back(std::move(timed));
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
  int64_t pass = 0;
  Work work;
  work.run = [&] {
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < std::min(calls, calls_.size()); ++i) {
      const TimedCall& call = calls_[i];
      const Clock::time_point call_start = Clock::now();
      call.kernel->Run({.inputs = call.inputs,
                        .outputs = call.outputs,
                        .scratch = call.scratch,
                        .accumulate = call.accumulate,
                        .step = &values_,
                        .block = call.block});
      if (keep_samples) samples_[static_cast<size_t>(call.spec)].push_back(NanosecondsSince(call_start));
    }
    pass = NanosecondsSince(start);
    return absl::OkStatus();
  };
  device_.Enqueue(Stream::kCompute, &work);
  RETURN_IF_ERROR(device_.Synchronize());
  return pass;
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
