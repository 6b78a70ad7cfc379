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

// What a work on one stream waits for: by stream, the latest work there, as an index of started works; -1: none.
using Awaited = std::array<int, kStreamCount>;
constexpr Awaited kNothing = {-1, -1, -1, -1, -1};

class StreamDevice : public CudaDevice {
 public:
  explicit StreamDevice(const CudaDeviceOptions& options) : options_(options) {}

  absl::Status Create();

  std::string Description() const override { return description_; }
  std::byte* arena() override { return static_cast<std::byte*>(arena_.get()); }
  int64_t arena_bytes() const override { return options_.arena_bytes; }
  int64_t bytes_beside_arena() const override;
  absl::StatusOr<std::byte*> TakeMemory(int64_t bytes) override;

  bool memory_is_of_host() const override { return false; }
  absl::Status CopyToDevice(std::byte* to, absl::Span<const std::byte> from) override {
    return Copy(to, from.data(), from.size(), cudaMemcpyHostToDevice);
  }
  absl::Status CopyToHost(absl::Span<std::byte> to, const std::byte* from) override {
    return Copy(to.data(), from, to.size(), cudaMemcpyDeviceToHost);
  }

  void ReserveEvents(int count) override;
  void Enqueue(Stream stream, const Work* work) override;
  void Record(Stream stream, Event event) override;
  void Wait(Stream stream, Event event) override;
  absl::Status Synchronize() override;

  absl::Status BeginCapture() override;
  absl::StatusOr<int> EndCapture() override;
  void Replay(int captured) override;

  StreamStatistics Statistics() const override { return statistics_; }
  void ResetStatistics() override;

  void SetMonitor(std::function<absl::Status()> monitor) override { monitor_ = std::move(monitor); }

 private:
  // A Work since the last Synchronize; its events are marks_[2 i] and marks_[2 i + 1] where it is timed.
  struct Started {
    const Work* work;
    Stream stream;
    Awaited awaited;
  };
  struct Recorded {
    Stream stream = Stream::kCompute;
    int latest = -1;  // work on that stream
  };

  absl::Status TakeArena();
  bool Run(Stream stream, const Work* work);
  absl::Status FillZero(void* place, size_t size);
  absl::Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
  absl::Status WaitUntilEmpty(Stream stream, Clock::time_point deadline);
  absl::Status AwaitCompletions(Clock::time_point deadline);
  void Mark(int mark, Stream stream);
  absl::StatusOr<int64_t> TimeOf(int mark) const;
  absl::Status CollectTimes();
  absl::Status Fork();
  absl::Status Join();

  cudaStream_t stream(Stream stream) const { return streams_[static_cast<size_t>(stream)].get(); }
  size_t Checked(Event event) const {
    REPRISE_CHECK(event >= 0 && event < static_cast<int>(events_.size()))
        << "event " << event << " of " << events_.size() << ": ReserveEvents comes first";
    return static_cast<size_t>(event);
  }
  // Keeps the first error until Synchronize returns it.
  void Note(const absl::Status& status) { status_.Update(status); }

  const CudaDeviceOptions options_;
  std::string description_;
  DeviceMemory arena_;
  std::vector<DeviceMemory> more_;
  std::array<StreamHandle, kStreamCount> streams_;
  std::vector<EventHandle> events_;
  std::vector<Recorded> recorded_;  // by event
  std::vector<EventHandle> marks_;  // of works that are timed
  EventHandle clock_start_;
  std::vector<Started> started_;
  std::array<int, kStreamCount> latest_ = kNothing;  // work of each stream, since the last Synchronize
  std::array<Awaited, kStreamCount> awaited_;        // by the next work of each stream
  StreamStatistics statistics_;
  std::function<absl::Status()> monitor_;
  absl::Status status_;
  bool capturing_ = false;
  std::array<EventHandle, kStreamCount> ends_;  // of streams that are captured; compute's is their beginning
  std::vector<GraphExecHandle> captured_;
};

absl::Status StreamDevice::TakeArena() {
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

int64_t StreamDevice::bytes_beside_arena() const {
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  return static_cast<int64_t>(total - free) - RoundUp(options_.arena_bytes, kArenaStep);
}

absl::Status StreamDevice::FillZero(void* place, size_t size) {
  RETURN_IF_ERROR(Call(cudaMemsetAsync(place, 0, size, stream(Stream::kCompute)), "fill memory with zeros"));
  return Call(cudaStreamSynchronize(stream(Stream::kCompute)), "fill memory with zeros");
}

absl::StatusOr<std::byte*> StreamDevice::TakeMemory(int64_t bytes) {
  DeviceMemory memory;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  RETURN_IF_ERROR(Call(cudaMalloc(memory.place(), size), absl::StrCat("take ", bytes, " bytes of device memory")));
  RETURN_IF_ERROR(FillZero(memory.get(), size));
  return static_cast<std::byte*>(more_.emplace_back(std::move(memory)).get());
}

absl::Status StreamDevice::Create() {
  awaited_.fill(kNothing);
  RETURN_IF_ERROR(UseDevice(options_.device));
  ASSIGN_OR_RETURN(description_, DescribeDevice(options_.device));
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
  // As a cpu's: what nobody has written yet is no token beyond the vocabulary.
  if (options_.arena_bytes > 0) {
    RETURN_IF_ERROR(FillZero(arena_.get(), static_cast<size_t>(RoundUp(options_.arena_bytes, kArenaStep))));
  }
  RETURN_IF_ERROR(Call(cudaEventCreateWithFlags(clock_start_.place(), cudaEventDefault), "create an event"));
  return Call(cudaEventRecord(clock_start_.get(), stream(Stream::kCompute)), "start the clock");
}

// Through a stream: a plain cudaMemcpy may return before what it took from pageable memory has arrived.
absl::Status StreamDevice::Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return absl::OkStatus();
  const char* what = kind == cudaMemcpyHostToDevice ? " bytes to the device" : " bytes to the host";
  RETURN_IF_ERROR(
      Call(cudaMemcpyAsync(to, from, bytes, kind, stream(Stream::kCompute)), absl::StrCat("copy ", bytes, what)));
  return Call(cudaStreamSynchronize(stream(Stream::kCompute)), absl::StrCat("copy ", bytes, what));
}

void StreamDevice::ReserveEvents(int count) {
  started_.reserve(static_cast<size_t>(count));
  while (static_cast<int>(events_.size()) < count) {
    EventHandle event;
    Note(Call(cudaEventCreateWithFlags(event.place(), cudaEventDisableTiming), "create an event"));
    events_.push_back(std::move(event));
  }
  recorded_.resize(events_.size());
}

// Records mark number `mark`; marks are made when they are first needed and kept.
void StreamDevice::Mark(int mark, Stream s) {
  while (static_cast<int>(marks_.size()) <= mark && status_.ok()) {
    EventHandle event;
    Note(Call(cudaEventCreateWithFlags(event.place(), cudaEventDefault), "create an event"));
    marks_.push_back(std::move(event));
  }
  if (!status_.ok()) return;
  Note(Call(cudaEventRecord(marks_[static_cast<size_t>(mark)].get(), stream(s)),
            absl::StrCat("record an event on the stream ", StreamName(s))));
}

void StreamDevice::Enqueue(Stream s, const Work* work) {
  if (!status_.ok()) return;
  if (capturing_) {
    static_cast<void>(Run(s, work));
    return;
  }
  const auto index = static_cast<int>(started_.size());
  started_.push_back({work, s, std::exchange(awaited_[static_cast<size_t>(s)], kNothing)});
  latest_[static_cast<size_t>(s)] = index;
  if (work->times != nullptr) Mark(2 * index, s);
  if (!Run(s, work)) started_.back().work = nullptr;  // its completion will not come
  if (work->times != nullptr) Mark(2 * index + 1, s);
  if (!status_.ok() || !work->done) return;
  const auto call_done = [](void* data) { static_cast<const Work*>(data)->done(); };
  Note(Call(cudaLaunchHostFunc(stream(s), call_done, const_cast<Work*>(work)),
            absl::StrCat("queue a call on the stream ", StreamName(s))));
}

// Lets the work put itself onto the stream; false where it says that it could not.
bool StreamDevice::Run(Stream s, const Work* work) {
  if (work->completion != nullptr) work->completion->Reset();
  SetCurrentStream(stream(s));
  const absl::Status status = work->run();
  SetCurrentStream(nullptr);
  Note(status);
  Note(Call(cudaGetLastError(),
            absl::StrCat("start ", *work->label == '\0' ? "work" : work->label, " on the stream ", StreamName(s))));
  return status.ok();
}

void StreamDevice::Record(Stream s, Event e) {
  if (!status_.ok()) return;
  recorded_[Checked(e)] = {s, latest_[static_cast<size_t>(s)]};
  Note(Call(cudaEventRecord(events_[Checked(e)].get(), stream(s)),
            absl::StrCat("record an event on the stream ", StreamName(s))));
}

void StreamDevice::Wait(Stream s, Event e) {
  if (!status_.ok()) return;
  const Recorded& recorded = recorded_[Checked(e)];
  int& awaited = awaited_[static_cast<size_t>(s)][static_cast<size_t>(recorded.stream)];
  awaited = std::max(awaited, recorded.latest);
  Note(Call(cudaStreamWaitEvent(stream(s), events_[Checked(e)].get(), 0),
            absl::StrCat("make the stream ", StreamName(s), " wait for an event")));
}

absl::Status StreamDevice::WaitUntilEmpty(Stream s, Clock::time_point deadline) {
  const Clock::time_point spin_until = Clock::now() + kSpin;
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream(s));
    if (error == cudaSuccess) return absl::OkStatus();
    if (error != cudaErrorNotReady) return Call(error, absl::StrCat("finish the stream ", StreamName(s)));
    const Clock::time_point now = Clock::now();
    if (now > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the CUDA stream ", StreamName(s), " has not ended within ",
                                                      options_.deadline_seconds,
                                                      " s: look at the other ranks, or raise --deadline"));
    }
    if (now < spin_until) {
      std::this_thread::yield();
      continue;
    }
    // After its error streams still have to end, which they do once the collective was given up.
    if (monitor_ && status_.ok()) Note(monitor_());
    std::this_thread::sleep_for(kNap);
  }
}

absl::Status StreamDevice::AwaitCompletions(Clock::time_point deadline) {
  absl::Status status;
  for (const Started& started : started_) {
    if (started.work == nullptr || started.work->completion == nullptr) continue;
    const std::chrono::duration<double> left = deadline - Clock::now();
    status.Update(started.work->completion->Wait(absl::Seconds(std::max(left.count(), 0.0))));
  }
  return status;
}

absl::Status StreamDevice::Synchronize() {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(options_.deadline_seconds));
  // Also after an error: what was started must have ended before anybody gives its memory back.
  for (const Stream s : kAllStreams) Note(WaitUntilEmpty(s, deadline));
  Note(AwaitCompletions(deadline));
  if (status_.ok()) Note(CollectTimes());
  started_.clear();
  latest_ = kNothing;
  awaited_.fill(kNothing);
  std::fill(recorded_.begin(), recorded_.end(), Recorded());
  return std::exchange(status_, absl::OkStatus());
}

// All streams become part of what the compute stream captures, and end in it.
absl::Status StreamDevice::Fork() {
  for (EventHandle& end : ends_) {
    if (end.get() != nullptr) continue;
    RETURN_IF_ERROR(Call(cudaEventCreateWithFlags(end.place(), cudaEventDisableTiming), "create an event"));
  }
  auto* const begin = ends_[static_cast<size_t>(Stream::kCompute)].get();
  RETURN_IF_ERROR(Call(cudaEventRecord(begin, stream(Stream::kCompute)), "record the beginning of a graph"));
  for (const Stream s : kAllStreams) {
    if (s == Stream::kCompute) continue;
    RETURN_IF_ERROR(Call(cudaStreamWaitEvent(stream(s), begin, 0), "begin a graph"));
  }
  return absl::OkStatus();
}

absl::Status StreamDevice::Join() {
  for (const Stream s : kAllStreams) {
    if (s == Stream::kCompute) continue;
    auto* const end = ends_[static_cast<size_t>(s)].get();
    RETURN_IF_ERROR(Call(cudaEventRecord(end, stream(s)), "record the end of a graph"));
    RETURN_IF_ERROR(Call(cudaStreamWaitEvent(stream(Stream::kCompute), end, 0), "end a graph"));
  }
  return absl::OkStatus();
}

absl::Status StreamDevice::BeginCapture() {
  REPRISE_CHECK(!capturing_ && started_.empty()) << "a step is under way";
  RETURN_IF_ERROR(Call(cudaStreamBeginCapture(stream(Stream::kCompute), cudaStreamCaptureModeThreadLocal),
                       "begin to capture a graph"));
  capturing_ = true;
  Note(Fork());
  return absl::OkStatus();
}

absl::StatusOr<int> StreamDevice::EndCapture() {
  REPRISE_CHECK(capturing_) << "no capture was begun";
  if (status_.ok()) Note(Join());
  capturing_ = false;
  GraphHandle graph;
  // Also after an error: the streams must leave their capture.
  Note(Call(cudaStreamEndCapture(stream(Stream::kCompute), graph.place()), "end the capture of a graph"));
  GraphExecHandle exec;
  if (status_.ok()) Note(Call(cudaGraphInstantiate(exec.place(), graph.get(), 0), "make a graph ready"));
  latest_ = kNothing;
  awaited_.fill(kNothing);
  std::fill(recorded_.begin(), recorded_.end(), Recorded());
  if (!status_.ok()) static_cast<void>(cudaGetLastError());  // the next work would find it
  RETURN_IF_ERROR(std::exchange(status_, absl::OkStatus()));
  captured_.push_back(std::move(exec));
  return static_cast<int>(captured_.size()) - 1;
}

void StreamDevice::Replay(int captured) {
  REPRISE_CHECK(captured >= 0 && captured < static_cast<int>(captured_.size())) << "no graph " << captured;
  if (!status_.ok()) return;
  Note(
      Call(cudaGraphLaunch(captured_[static_cast<size_t>(captured)].get(), stream(Stream::kCompute)), "start a graph"));
}

absl::StatusOr<int64_t> StreamDevice::TimeOf(int mark) const {
  float milliseconds = 0;
  RETURN_IF_ERROR(Call(cudaEventElapsedTime(&milliseconds, clock_start_.get(), marks_[static_cast<size_t>(mark)].get()),
                       "say when an event was"));
  return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}

// Fills in the works' times, and what each stream stood still for: from the end of its last work to the end of the last
// work that the next one waited for.
absl::Status StreamDevice::CollectTimes() {
  std::array<int64_t, kStreamCount> free_from{};  // the end of the last work of each stream
  for (size_t i = 0; i < started_.size(); ++i) {
    const Started& started = started_[i];
    if (started.work->times == nullptr) continue;
    ASSIGN_OR_RETURN(started.work->times->start_ns, TimeOf(static_cast<int>(2 * i)));
    ASSIGN_OR_RETURN(started.work->times->end_ns, TimeOf(static_cast<int>(2 * i + 1)));
    const auto s = static_cast<size_t>(started.stream);
    int64_t held_until = free_from[s];
    size_t by = s;
    for (size_t other = 0; other < started.awaited.size(); ++other) {
      if (started.awaited[other] < 0) continue;
      const Work& awaited = *started_[static_cast<size_t>(started.awaited[other])].work;
      if (awaited.times == nullptr || awaited.times->end_ns <= held_until) continue;
      held_until = awaited.times->end_ns;
      by = other;
    }
    statistics_.waited_seconds[s][by] += 1e-9 * static_cast<double>(held_until - free_from[s]);
    statistics_.busy_seconds[s] +=
        1e-9 * static_cast<double>(started.work->times->end_ns - started.work->times->start_ns);
    free_from[s] = started.work->times->end_ns;
  }
  return absl::OkStatus();
}

void StreamDevice::ResetStatistics() {
  statistics_ = {};
  Note(Call(cudaEventRecord(clock_start_.get(), stream(Stream::kCompute)), "start the clock"));
  Note(Call(cudaStreamSynchronize(stream(Stream::kCompute)), "start the clock"));  // before work of any stream
}

}  // namespace

absl::StatusOr<int> DeviceCount() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());  // it would be found again after the first kernel
  if (error == cudaSuccess && count > 0) return count;
  return absl::InvalidArgumentError(absl::StrCat("device=cuda: this machine has no CUDA device that can be used (",
                                                 error == cudaSuccess ? "none was found" : cudaGetErrorString(error),
                                                 "); use device=cpu, or look at nvidia-smi"));
}

absl::Status UseDevice(int device) { return Call(cudaSetDevice(device), absl::StrCat("use device ", device)); }

absl::StatusOr<std::string> DescribeDevice(int device) {
  cudaDeviceProp properties;
  RETURN_IF_ERROR(Call(cudaGetDeviceProperties(&properties, device), "describe the device"));
  return absl::StrCat("cuda, ", properties.name, ", sm_", properties.major, properties.minor);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options) {
  REPRISE_CHECK(options.arena_bytes >= 0 && options.device >= 0) << options.arena_bytes << " on " << options.device;
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  if (options.device >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("device=cuda: this rank wants CUDA device ", options.device, " of its node, which has ", count));
  }
  auto device = std::make_unique<StreamDevice>(options);
  RETURN_IF_ERROR(device->Create());
  return device;
}

}  // namespace reprise::cuda
