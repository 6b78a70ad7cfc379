#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/handles.h"

namespace reprise::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A step is over within milliseconds of when it was expected, or much later: look often at first.
constexpr std::chrono::milliseconds kSpin{2};
constexpr std::chrono::microseconds kNap{50};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {}

  absl::Status Create();

  std::string Description() const override { return description_; }
  std::byte* arena() override { return static_cast<std::byte*>(arena_.get()); }
  int64_t arena_bytes() const override { return options_.arena_bytes; }

  void ReserveEvents(int count) override;
  void Enqueue(Stream stream, const Work* work) override;
  void Record(Stream stream, Event event) override;
  void Wait(Stream stream, Event event) override;
  absl::Status Synchronize() override;

  StreamStatistics Statistics() const override { return {}; }
  void ResetStatistics() override {}

 private:
  absl::Status CheckDevice() const;
  absl::Status TakeArena();
  absl::Status WaitUntilEmpty(Stream stream, Clock::time_point deadline) const;

  cudaStream_t stream(Stream stream) const { return streams_[static_cast<size_t>(stream)].get(); }
  cudaEvent_t event(Event event) const {
    REPRISE_CHECK(event >= 0 && event < static_cast<int>(events_.size()))
        << "event " << event << " of " << events_.size() << ": ReserveEvents comes first";
    return events_[static_cast<size_t>(event)].get();
  }
  // Keeps the first error until Synchronize returns it.
  void Note(const absl::Status& status) { status_.Update(status); }

  const CudaDeviceOptions options_;
  std::string description_;
  DeviceMemory arena_;
  std::array<StreamHandle, kStreamCount> streams_;
  std::vector<EventHandle> events_;
  std::vector<Completion*> started_;  // since the last Synchronize
  absl::Status status_;
};

absl::Status CudaDevice::CheckDevice() const {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());  // it would be found again after the first kernel
  if (error != cudaSuccess || count == 0) {
    return absl::InvalidArgumentError(absl::StrCat("device=cuda: this machine has no CUDA device that can be used (",
                                                   error == cudaSuccess ? "none was found" : cudaGetErrorString(error),
                                                   "); use device=cpu, or look at nvidia-smi"));
  }
  if (options_.device >= count) {
    return absl::InvalidArgumentError(absl::StrCat("device=cuda: this rank wants CUDA device ", options_.device,
                                                   " of its node, which has ", count,
                                                   "; start at most that many ranks on a node"));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::TakeArena() {
  const int64_t bytes = RoundUp(options_.arena_bytes, kArenaStep);
  if (bytes == 0) return absl::OkStatus();
  const cudaError_t error = cudaMalloc(arena_.place(), static_cast<size_t>(bytes));
  if (error != cudaErrorMemoryAllocation) return Call(error, absl::StrCat("take ", bytes, " bytes of device memory"));
  static_cast<void>(cudaGetLastError());
  size_t free = 0;
  size_t total = 0;
  RETURN_IF_ERROR(Call(cudaMemGetInfo(&free, &total), "say how much memory is free"));
  return absl::ResourceExhaustedError(absl::StrCat("CUDA device ", options_.device, ": the arena of ", bytes,
                                                   " bytes (", FormatBytes(bytes), ") cannot be had; ", free,
                                                   " bytes (", FormatBytes(static_cast<int64_t>(free)), ") of ",
                                                   FormatBytes(static_cast<int64_t>(total)), " are free"));
}

absl::Status CudaDevice::Create() {
  RETURN_IF_ERROR(CheckDevice());
  RETURN_IF_ERROR(Call(cudaSetDevice(options_.device), absl::StrCat("use device ", options_.device)));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(Call(cudaGetDeviceProperties(&properties, options_.device), "describe the device"));
  description_ = absl::StrCat("cuda, ", properties.name, ", sm_", properties.major, properties.minor);
  RETURN_IF_ERROR(TakeArena());
  int least = 0;
  int greatest = 0;
  RETURN_IF_ERROR(Call(cudaDeviceGetStreamPriorityRange(&least, &greatest), "say its priorities"));
  for (const Stream s : kAllStreams) {
    const int priority = s == Stream::kCompute ? least : greatest;
    RETURN_IF_ERROR(
        Call(cudaStreamCreateWithPriority(streams_[static_cast<size_t>(s)].place(), cudaStreamNonBlocking, priority),
             absl::StrCat("create the stream ", StreamName(s))));
  }
  return absl::OkStatus();
}

void CudaDevice::ReserveEvents(int count) {
  started_.reserve(static_cast<size_t>(count));
  while (static_cast<int>(events_.size()) < count) {
    EventHandle event;
    Note(Call(cudaEventCreateWithFlags(event.place(), cudaEventDisableTiming), "create an event"));
    events_.push_back(std::move(event));
  }
}

void CudaDevice::Enqueue(Stream s, const Work* work) {
  if (!status_.ok()) return;
  SetCurrentStream(stream(s));
  const absl::Status status = work->run();
  SetCurrentStream(nullptr);
  if (work->completion != nullptr && status.ok()) started_.push_back(work->completion);
  Note(status);
  Note(Call(cudaGetLastError(), absl::StrCat("start work on the stream ", StreamName(s))));
  if (!status_.ok() || !work->done) return;
  const auto call_done = [](void* data) { static_cast<const Work*>(data)->done(); };
  Note(Call(cudaLaunchHostFunc(stream(s), call_done, const_cast<Work*>(work)),
            absl::StrCat("queue a call on the stream ", StreamName(s))));
}

void CudaDevice::Record(Stream s, Event e) {
  if (!status_.ok()) return;
  Note(Call(cudaEventRecord(event(e), stream(s)), absl::StrCat("record an event on the stream ", StreamName(s))));
}

void CudaDevice::Wait(Stream s, Event e) {
  if (!status_.ok()) return;
  Note(Call(cudaStreamWaitEvent(stream(s), event(e), 0),
            absl::StrCat("make the stream ", StreamName(s), " wait for an event")));
}

absl::Status CudaDevice::WaitUntilEmpty(Stream s, Clock::time_point deadline) const {
  const Clock::time_point spin_until = Clock::now() + kSpin;
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream(s));
    if (error == cudaSuccess) return absl::OkStatus();
    if (error != cudaErrorNotReady) return Call(error, absl::StrCat("finish the stream ", StreamName(s)));
    const Clock::time_point now = Clock::now();
    if (now > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the CUDA stream ", StreamName(s), " has not ended within ", options_.deadline_seconds, " s"));
    }
    if (now < spin_until) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

absl::Status CudaDevice::Synchronize() {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(options_.deadline_seconds));
  // Also after an error: what was started must have ended before anybody gives its memory back.
  for (const Stream s : kAllStreams) Note(WaitUntilEmpty(s, deadline));
  for (Completion* completion : started_) {
    const std::chrono::duration<double> left = deadline - Clock::now();
    Note(completion->Wait(absl::Seconds(std::max(left.count(), 0.0))));
  }
  started_.clear();
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options) {
  REPRISE_CHECK(options.arena_bytes >= 0 && options.device >= 0) << options.arena_bytes << " on " << options.device;
  auto device = std::make_unique<CudaDevice>(options);
  RETURN_IF_ERROR(device->Create());
  return device;
}

}  // namespace reprise::cuda
