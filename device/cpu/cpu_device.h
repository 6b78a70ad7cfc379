// What both ways to run the `cpu` device share: arena, description, events, the first error.
#ifndef REPRISE_DEVICE_CPU_CPU_DEVICE_H_
#define REPRISE_DEVICE_CPU_CPU_DEVICE_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/entry.h"
#include "device/device.h"
#include "device/host_memory.h"

namespace reprise::cpu {

using Clock = std::chrono::steady_clock;

class CpuDevice : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, HostMemory arena) : options_(options), arena_(std::move(arena)) {}

  std::string Description() const override;
  std::byte* arena() override { return arena_.data(); }
  int64_t arena_bytes() const override { return options_.arena_bytes; }
  int64_t bytes_beside_arena() const override { return 0; }
  absl::StatusOr<std::byte*> TakeMemory(int64_t bytes) override;
  bool memory_is_of_host() const override { return true; }
  absl::Status CopyToDevice(std::byte* to, absl::Span<const std::byte> from) override;
  absl::Status CopyToHost(absl::Span<std::byte> to, const std::byte* from) override;
  void ReserveEvents(int count) override { events_.Reserve(count); }

 protected:
  const CpuDeviceOptions& options() const { return options_; }
  EventTable& events() { return events_; }

  // The clock of WorkTimes.
  void StartClock() { clock_start_ = Clock::now(); }
  int64_t NanosecondsAt(Clock::time_point time) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - clock_start_).count();
  }

  // OpenMP threads of what runs on `stream`: only compute has more than one, whichever thread runs it.
  int ThreadsOf(Stream stream) const { return stream == Stream::kCompute ? options_.threads : 1; }

 private:
  const CpuDeviceOptions options_;
  const HostMemory arena_;
  std::vector<HostMemory> more_;
  EventTable events_;
  Clock::time_point clock_start_ = Clock::now();  // written by the issuing thread between steps
};

// Streams as worker threads (async_device.cc). ResourceExhausted where the system gives no more threads.
absl::StatusOr<std::unique_ptr<Device>> MakeAsyncDevice(const CpuDeviceOptions& options, HostMemory arena);

// Streams in the issuing thread, in an order drawn from a seed (random_order_device.cc).
std::unique_ptr<Device> MakeRandomOrderDevice(const CpuDeviceOptions& options, HostMemory arena);

}  // namespace reprise::cpu

#endif  // REPRISE_DEVICE_CPU_CPU_DEVICE_H_
