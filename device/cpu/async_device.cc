// Each stream is a worker thread behind a StreamQueue; the issuing thread only fills the queues.
#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/run_work.h"
#include "device/cpu/stream_queue.h"

namespace reprise::cpu {
namespace {

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class AsyncDevice : public CpuDevice {
 public:
  AsyncDevice(const CpuDeviceOptions& options, HostMemory arena) : CpuDevice(options, std::move(arena)) {}
  ~AsyncDevice() override;
  absl::Status Start();

  void Enqueue(Stream stream, const Work* work) override { lane(stream).queue.Push({.work = work, .mark = {}}); }
  void Record(Stream stream, Event event) override { events()[event] = {stream, lane(stream).queue.issued()}; }
  void Wait(Stream stream, Event event) override;
  absl::Status Synchronize() override;
  StreamStatistics Statistics() const override;
  void ResetStatistics() override;

 private:
  // A stream: its queue, its thread, and times that only its thread writes.
  struct Lane {
    StreamQueue queue;
    std::thread thread;
    std::array<double, kStreamCount> waited_seconds{};
    double busy_seconds = 0;
  };

  Lane& lane(Stream stream) { return lanes_[static_cast<int>(stream)]; }
  void RunStream(Stream stream);
  void Execute(Stream stream, const Work& work);
  void Hold(Stream stream, Mark mark);
  void Drain();

  std::array<Lane, kStreamCount> lanes_;
  std::atomic<bool> failed_{false};  // work is skipped
  std::mutex error_mutex_;
  absl::Status error_;  // the first
};

absl::Status AsyncDevice::Start() {
  try {
    for (const Stream stream : kAllStreams) lane(stream).thread = std::thread([this, stream] { RunStream(stream); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("the system gives no thread for a stream (", error.what(),
                                                     "): raise the limit of processes (ulimit -u)"));
  }
  return absl::OkStatus();
}

AsyncDevice::~AsyncDevice() {
  failed_ = true;  // work that nobody waited for may be gone already: skip it
  for (Lane& lane : lanes_) {
    if (!lane.thread.joinable()) continue;
    lane.queue.WaitUntilDone(lane.queue.issued());
    lane.queue.Stop();
    lane.thread.join();
  }
}

void AsyncDevice::Wait(Stream stream, Event event) {
  const Mark mark = events()[event];
  if (mark.stream == stream || lane(mark.stream).queue.done() >= mark.position) return;
  lane(stream).queue.Push({.work = nullptr, .mark = mark});
}

void AsyncDevice::RunStream(Stream stream) {
  pthread_setname_np(pthread_self(), absl::StrCat("rp-", StreamName(stream)).c_str());
  omp_set_num_threads(ThreadsOf(stream));
  StreamQueue& queue = lane(stream).queue;
  while (const Entry* entry = queue.Front()) {
    if (entry->work != nullptr) {
      Execute(stream, *entry->work);
    } else {
      Hold(stream, entry->mark);
    }
    queue.Pop();
  }
}

void AsyncDevice::Execute(Stream stream, const Work& work) {
  if (failed_.load(std::memory_order_acquire)) return;
  const Clock::time_point start = Clock::now();
  absl::Status status = RunWork(stream, work, options().deadline_seconds);
  const Clock::time_point end = Clock::now();
  lane(stream).busy_seconds += std::chrono::duration<double>(end - start).count();
  if (work.times != nullptr) *work.times = {NanosecondsAt(start), NanosecondsAt(end)};
  if (status.ok()) return;
  const std::lock_guard lock(error_mutex_);
  if (error_.ok()) error_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

void AsyncDevice::Hold(Stream stream, Mark mark) {
  StreamQueue& other = lane(mark.stream).queue;
  if (other.done() >= mark.position) return;
  const Clock::time_point start = Clock::now();
  other.WaitUntilDone(mark.position);
  lane(stream).waited_seconds[static_cast<int>(mark.stream)] += SecondsSince(start);
}

void AsyncDevice::Drain() {
  for (Lane& lane : lanes_) lane.queue.WaitUntilDone(lane.queue.issued());
}

absl::Status AsyncDevice::Synchronize() {
  Drain();
  const std::lock_guard lock(error_mutex_);
  failed_ = false;
  return std::exchange(error_, absl::OkStatus());
}

StreamStatistics AsyncDevice::Statistics() const {
  StreamStatistics statistics;
  for (int stream = 0; stream < kStreamCount; ++stream) {
    statistics.busy_seconds[stream] = lanes_[stream].busy_seconds;
    statistics.waited_seconds[stream] = lanes_[stream].waited_seconds;
  }
  return statistics;
}

void AsyncDevice::ResetStatistics() {
  StartClock();
  for (Lane& lane : lanes_) {
    lane.busy_seconds = 0;
    lane.waited_seconds = {};
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeAsyncDevice(const CpuDeviceOptions& options, HostMemory arena) {
  auto device = std::make_unique<AsyncDevice>(options, std::move(arena));
  RETURN_IF_ERROR(device->Start());
  return device;
}

}  // namespace reprise::cpu
