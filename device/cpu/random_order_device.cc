// All streams in the issuing thread, in any order that the events allow, drawn from a seed.
//
// Calls only queue. Synchronize then draws, again and again, one among the streams whose front may run, and runs it.
// Holds that are reached leave at once, so that the draw is always among all that is legal. A work with a completion is
// started when drawn and ends when drawn again and done; meanwhile the other streams go on, so two ranks that draw
// different orders of two collectives on two streams do not wait for each other for ever.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/run_work.h"
#include "device/cpu/split_mix.h"

namespace reprise::cpu {
namespace {

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Puts the calling thread's number of OpenMP threads back, whatever works of several streams set.
class OpenMpThreadsScope {
 public:
  OpenMpThreadsScope() : threads_(omp_get_max_threads()) {}
  ~OpenMpThreadsScope() { omp_set_num_threads(threads_); }
  OpenMpThreadsScope(const OpenMpThreadsScope&) = delete;
  OpenMpThreadsScope& operator=(const OpenMpThreadsScope&) = delete;

 private:
  const int threads_;
};

class RandomOrderDevice : public CpuDevice {
 public:
  RandomOrderDevice(const CpuDeviceOptions& options, HostMemory arena);

  void Enqueue(Stream stream, const Work* work) override { Push(stream, {.work = work, .mark = {}}); }
  void Record(Stream stream, Event event) override { events()[event] = {stream, lane(stream).issued}; }
  void Wait(Stream stream, Event event) override;
  absl::Status Synchronize() override;
  StreamStatistics Statistics() const override;
  void ResetStatistics() override;

 private:
  static constexpr uint64_t kCapacity = 1 << 16;  // entries a stream; more are run before Synchronize
  static constexpr uint64_t kLargestWeight = 1 << 12;
  // A collective that other ranks are late for is waited for a little: its stream can then be ahead of all others.
  static constexpr double kPatienceSeconds = 5e-4;

  struct Lane {
    std::unique_ptr<Entry[]> entries;
    uint64_t issued = 0;
    uint64_t done = 0;
    uint64_t weight = 1;   // chance to be drawn, relative to the other streams
    bool started = false;  // the front is a work whose completion has not been seen yet
    bool aside = false;    // ... and was not done when last drawn
    Clock::time_point start;
    double busy_seconds = 0;

    bool empty() const { return done == issued; }
    const Entry& front() const { return entries[done % kCapacity]; }
  };
  using Choice = std::array<Stream, kStreamCount>;

  Lane& lane(Stream stream) { return lanes_[static_cast<int>(stream)]; }
  void Push(Stream stream, const Entry& entry);
  void DrawWeights();
  bool Advance();
  void Settle();
  bool Leaves(const Lane& lane);
  Stream Draw(const Choice& choice, int count);
  void StartFront(Stream stream);
  void End(Stream stream, const absl::Status& status);
  void AwaitAnyStarted();
  template <typename Predicate>
  std::string StreamsWhere(const Predicate& predicate);

  std::array<Lane, kStreamCount> lanes_;
  SplitMix64 random_;
  double patience_seconds_ = 0;
  absl::Status error_;  // the first since the last Synchronize; work is skipped while there is one
};

RandomOrderDevice::RandomOrderDevice(const CpuDeviceOptions& options, HostMemory arena)
    : CpuDevice(options, std::move(arena)), random_(options.stream_order.seed) {
  for (Lane& lane : lanes_) lane.entries = std::make_unique_for_overwrite<Entry[]>(kCapacity);
  DrawWeights();
}

void RandomOrderDevice::Push(Stream stream, const Entry& entry) {
  Lane& lane = this->lane(stream);
  if (lane.issued - lane.done == kCapacity) {
    const OpenMpThreadsScope scope;
    while (lane.issued - lane.done == kCapacity) Advance();
  }
  lane.entries[lane.issued % kCapacity] = entry;
  ++lane.issued;
}

void RandomOrderDevice::Wait(Stream stream, Event event) {
  const Mark mark = events()[event];
  if (mark.stream == stream || lane(mark.stream).done >= mark.position) return;
  Push(stream, {.work = nullptr, .mark = mark});
}

absl::Status RandomOrderDevice::Synchronize() {
  const OpenMpThreadsScope scope;
  while (Advance()) {
  }
  DrawWeights();
  return std::exchange(error_, absl::OkStatus());
}

// A third of the time all streams are equal. Else one may be 4096 times slower than another, or one is that much slower
// or faster than all: copies that come very late and collectives that come very early are then found with few seeds,
// and still every legal order can be drawn.
void RandomOrderDevice::DrawWeights() {
  const uint64_t mode = random_.Below(3);
  const uint64_t odd_one = random_.Below(kStreamCount);
  const bool is_slow = random_.Below(2) == 1;
  for (uint64_t i = 0; i < lanes_.size(); ++i) {
    const uint64_t skewed = uint64_t{1} << random_.Below(13);
    const uint64_t apart = (i == odd_one) != is_slow ? kLargestWeight : 1;
    lanes_[i].weight = mode == 0 ? 1 : mode == 1 ? skewed : apart;
  }
  patience_seconds_ = mode == 0 ? 0 : kPatienceSeconds;
}

// One draw. False once every stream is empty.
bool RandomOrderDevice::Advance() {
  Settle();
  Choice choice{};
  int count = 0;
  bool any_started = false;
  for (const Stream stream : kAllStreams) {
    const Lane& lane = this->lane(stream);
    any_started |= lane.started;
    const bool runs = !lane.empty() && lane.front().work != nullptr && !lane.aside;
    if (runs) choice[count++] = stream;
  }
  if (count == 0) {
    if (any_started) AwaitAnyStarted();
    return any_started;
  }
  const Stream drawn = Draw(choice, count);
  if (!lane(drawn).started) {
    StartFront(drawn);
  } else if (const Completion& completion = *lane(drawn).front().work->completion; completion.done()) {
    End(drawn, completion.Wait());
  } else if (SecondsSince(lane(drawn).start) < patience_seconds_) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } else {
    lane(drawn).aside = true;
  }
  return true;
}

// Whether the front needs no draw: a hold that is reached, or work that an error skips.
bool RandomOrderDevice::Leaves(const Lane& lane) {
  if (lane.empty() || lane.started) return false;
  const Entry& front = lane.front();
  if (front.work != nullptr) return !error_.ok();
  return this->lane(front.mark.stream).done >= front.mark.position;
}

void RandomOrderDevice::Settle() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Lane& lane : lanes_) {
      for (; Leaves(lane); changed = true) ++lane.done;
    }
  }
  // A hold's mark was issued before the hold, so the earliest entry of all never waits for another: a stream that waits
  // while no stream can run is a broken queue.
  const auto waits = [](const Lane& lane) { return !lane.empty() && lane.front().work == nullptr; };
  const auto idle = [&](const Lane& lane) { return lane.empty() || waits(lane); };
  REPRISE_CHECK(!std::all_of(lanes_.begin(), lanes_.end(), idle) || !std::any_of(lanes_.begin(), lanes_.end(), waits))
      << StreamsWhere(waits) << " wait for what was never queued";
}

Stream RandomOrderDevice::Draw(const Choice& choice, int count) {
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += lane(choice[i]).weight;
  uint64_t point = random_.Below(total);
  for (int i = 0; i < count; ++i) {
    const uint64_t weight = lane(choice[i]).weight;
    if (point < weight) return choice[i];
    point -= weight;
  }
  return choice[count - 1];
}

void RandomOrderDevice::StartFront(Stream stream) {
  Lane& lane = this->lane(stream);
  const Work& work = *lane.front().work;
  omp_set_num_threads(ThreadsOf(stream));
  lane.start = Clock::now();
  const absl::Status status = StartWork(stream, work);
  if (status.ok() && work.completion != nullptr) {
    lane.started = true;
    for (Lane& other : lanes_) other.aside = false;
  } else {
    End(stream, status);
  }
}

void RandomOrderDevice::End(Stream stream, const absl::Status& status) {
  Lane& lane = this->lane(stream);
  lane.started = false;
  const Work& work = *lane.front().work;
  if (status.ok() && work.done) work.done();
  const Clock::time_point end = Clock::now();
  lane.busy_seconds += std::chrono::duration<double>(end - lane.start).count();
  if (work.times != nullptr) *work.times = {NanosecondsAt(lane.start), NanosecondsAt(end)};
  ++lane.done;
  if (error_.ok()) error_ = status;
  for (Lane& other : lanes_) other.aside = false;  // time has passed: who was not done may be
}

// Nothing else can run: sleeps until a started work is done, or gives all of them up at the deadline.
void RandomOrderDevice::AwaitAnyStarted() {
  const Clock::time_point start = Clock::now();
  std::chrono::microseconds sleep(20);
  while (SecondsSince(start) < options().deadline_seconds) {
    bool any_done = false;
    for (Lane& lane : lanes_) {
      if (!lane.started || !lane.front().work->completion->done()) continue;
      lane.aside = false;
      any_done = true;
    }
    if (any_done) return;
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, std::chrono::microseconds(1000));
  }
  const absl::Status error =
      DeadlineError(StreamsWhere([](const Lane& lane) { return lane.started; }), options().deadline_seconds);
  for (const Stream stream : kAllStreams) {
    if (lane(stream).started) End(stream, error);
  }
}

// "streams gather, reduce"; empty where there is none.
template <typename Predicate>
std::string RandomOrderDevice::StreamsWhere(const Predicate& predicate) {
  std::vector<std::string> names;
  for (const Stream stream : kAllStreams) {
    if (predicate(lane(stream))) names.emplace_back(StreamName(stream));
  }
  if (names.empty()) return "";
  return absl::StrCat(names.size() == 1 ? "stream " : "streams ", absl::StrJoin(names, ", "));
}

StreamStatistics RandomOrderDevice::Statistics() const {
  StreamStatistics statistics;
  for (int stream = 0; stream < kStreamCount; ++stream) statistics.busy_seconds[stream] = lanes_[stream].busy_seconds;
  return statistics;
}

void RandomOrderDevice::ResetStatistics() {
  StartClock();
  for (Lane& lane : lanes_) lane.busy_seconds = 0;
}

}  // namespace

std::unique_ptr<Device> MakeRandomOrderDevice(const CpuDeviceOptions& options, HostMemory arena) {
  return std::make_unique<RandomOrderDevice>(options, std::move(arena));
}

}  // namespace reprise::cpu
