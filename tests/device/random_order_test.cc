// The `cpu` device with all streams in one thread, in an order drawn from a seed.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/device.h"

namespace reprise {
namespace {

std::unique_ptr<Device> MakeDevice(uint64_t seed, CpuDeviceOptions options = {}) {
  options.stream_order = {.random = true, .seed = seed};
  absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice(options);
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->ReserveEvents(8);
  return *std::move(device);
}

// Works that write their letter.
class Letters {
 public:
  const Work* Write(char letter) {
    works_.push_back({.run = [this, letter] {
      text_ += letter;
      return absl::OkStatus();
    }});
    return &works_.back();
  }
  std::string Take() { return std::exchange(text_, ""); }

 private:
  std::deque<Work> works_;
  std::string text_;
};

// gather: A (event 0) B; compute: waits 0, C (event 1) D; offload: E, waits 1, F; event 0 is recorded again behind B.
std::string RunProgram(Device& device) {
  Letters letters;
  device.Enqueue(Stream::kGather, letters.Write('A'));
  device.Record(Stream::kGather, 0);
  device.Wait(Stream::kCompute, 0);
  device.Enqueue(Stream::kGather, letters.Write('B'));
  device.Record(Stream::kGather, 0);
  device.Enqueue(Stream::kCompute, letters.Write('C'));
  device.Record(Stream::kCompute, 1);
  device.Enqueue(Stream::kCompute, letters.Write('D'));
  device.Enqueue(Stream::kOffload, letters.Write('E'));
  device.Wait(Stream::kOffload, 1);
  device.Enqueue(Stream::kOffload, letters.Write('F'));
  EXPECT_EQ(letters.Take(), "");  // nothing runs before Synchronize
  EXPECT_TRUE(device.Synchronize().ok());
  return letters.Take();
}

std::set<std::string> LegalOrders() {
  constexpr std::array<const char*, 5> kBefore = {"AB", "CD", "EF", "AC", "CF"};
  std::set<std::string> orders;
  std::string order = "ABCDEF";
  do {
    const bool legal = std::all_of(kBefore.begin(), kBefore.end(),
                                   [&](const char* pair) { return order.find(pair[0]) < order.find(pair[1]); });
    if (legal) orders.insert(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

TEST(RandomOrder, DrawsEveryLegalOrderAndNoOther) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 2000; ++seed) seen.insert(RunProgram(*MakeDevice(seed)));
  EXPECT_EQ(seen, LegalOrders());
}

TEST(RandomOrder, DrawsEveryLegalOrderOverTheStepsOfOneSeedToo) {
  const std::unique_ptr<Device> device = MakeDevice(5);
  std::set<std::string> seen;
  for (int step = 0; step < 2000; ++step) seen.insert(RunProgram(*device));
  EXPECT_EQ(seen, LegalOrders());
}

TEST(RandomOrder, EqualSeedsDrawEqualOrders) {
  std::set<std::string> sequences;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<Device> first = MakeDevice(seed);
    const std::unique_ptr<Device> second = MakeDevice(seed);
    std::string sequence;
    for (int step = 0; step < 20; ++step) {
      const std::string order = RunProgram(*first);
      EXPECT_EQ(order, RunProgram(*second));
      sequence += order;
    }
    sequences.insert(sequence);
  }
  EXPECT_EQ(sequences.size(), 20);
}

// Thirty works of compute and one copy that reads what the first of them wrote, without (or with) its event.
int CopiedValue(uint64_t seed, bool with_event) {
  const std::unique_ptr<Device> device = MakeDevice(seed);
  int value = 0;
  int copy = -1;
  const Work write{.run = [&] {
    ++value;
    return absl::OkStatus();
  }};
  const Work copy_out{.run = [&] {
    copy = value;
    return absl::OkStatus();
  }};
  device->Enqueue(Stream::kCompute, &write);
  device->Record(Stream::kCompute, 0);
  if (with_event) device->Wait(Stream::kOffload, 0);
  device->Enqueue(Stream::kOffload, &copy_out);
  device->Record(Stream::kOffload, 1);
  if (with_event) device->Wait(Stream::kCompute, 1);
  for (int i = 0; i < 29; ++i) device->Enqueue(Stream::kCompute, &write);
  EXPECT_TRUE(device->Synchronize().ok());
  return copy;
}

TEST(RandomOrder, AMissingEventShowsWithFewSeeds) {
  std::set<int> missing;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(CopiedValue(seed, /*with_event=*/true), 1);
    missing.insert(CopiedValue(seed, /*with_event=*/false));
  }
  EXPECT_TRUE(missing.contains(0)) << "a copy that comes too early";
  EXPECT_TRUE(missing.contains(30)) << "a copy that comes after everything";
}

TEST(RandomOrder, AFullQueueRunsUntilThereIsRoom) {
  const std::unique_ptr<Device> device = MakeDevice(1);
  int64_t count = 0;
  const Work add{.run = [&] {
    ++count;
    return absl::OkStatus();
  }};
  for (int i = 0; i < 200000; ++i) device->Enqueue(Stream::kReduce, &add);
  EXPECT_GT(count, 0);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(count, 200000);
}

TEST(RandomOrder, TheFirstErrorSkipsTheRestAndIsCleared) {
  const std::unique_ptr<Device> device = MakeDevice(1);
  Letters letters;
  const Work fail{.run = []() -> absl::Status { throw std::runtime_error("no primitive"); }};
  device->Enqueue(Stream::kCompute, letters.Write('A'));
  device->Enqueue(Stream::kCompute, &fail);
  device->Enqueue(Stream::kCompute, letters.Write('B'));
  device->Record(Stream::kCompute, 0);
  device->Wait(Stream::kOffload, 0);
  device->Enqueue(Stream::kOffload, letters.Write('C'));
  EXPECT_EQ(device->Synchronize(), absl::InternalError("work on stream compute threw: no primitive"));
  EXPECT_EQ(letters.Take(), "A");
  device->Enqueue(Stream::kOffload, letters.Write('D'));
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(letters.Take(), "D");
}

TEST(RandomOrder, ACompletionHoldsItsStreamWhileOthersGoOn) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::unique_ptr<Device> device = MakeDevice(seed);
    Letters letters;
    Completion completion;
    bool started = false;
    const Work start{.run =
                         [&] {
                           started = true;
                           return absl::OkStatus();
                         },
                     .completion = &completion};
    const Work finish{.run = [&] {  // where it comes before the start, that seed says nothing
      if (started) completion.Finish(absl::OkStatus());
      return started ? letters.Write('F')->run() : absl::CancelledError("before the start");
    }};
    device->Enqueue(Stream::kGather, &start);
    device->Enqueue(Stream::kGather, letters.Write('G'));
    device->Enqueue(Stream::kCompute, letters.Write('C'));
    device->Enqueue(Stream::kCompute, &finish);
    if (device->Synchronize().ok()) seen.insert(letters.Take());
  }
  EXPECT_EQ(seen, std::set<std::string>{"CFG"});  // G never before F, and compute went on meanwhile
}

// A collective of two ranks: it ends once both have started it.
class Meeting {
 public:
  Work Start(int rank) {
    return {.run = [this] { return Arrive(); }, .completion = &completions_[rank]};
  }

 private:
  absl::Status Arrive() {
    const std::lock_guard lock(mutex_);
    if (++arrived_ < 2) return absl::OkStatus();
    for (Completion& completion : completions_) completion.Finish(absl::OkStatus());
    return absl::OkStatus();
  }

  std::mutex mutex_;
  int arrived_ = 0;
  std::array<Completion, 2> completions_;
};

void RunRank(uint64_t seed, int rank, std::array<Meeting, 4>& meetings, std::string& order) {
  const std::unique_ptr<Device> device = MakeDevice(seed, {.deadline_seconds = 60});
  Letters letters;
  std::deque<Work> works;
  for (int i = 0; i < 4; ++i) {
    works.push_back(meetings[i].Start(rank));
    const Stream stream = i % 2 == 0 ? Stream::kGather : Stream::kReduce;
    device->Enqueue(stream, &works.back());
    device->Enqueue(stream, letters.Write(static_cast<char>('0' + i)));
  }
  EXPECT_TRUE(device->Synchronize().ok());
  order = letters.Take();
}

TEST(RandomOrder, RanksThatDrawDifferentOrdersDoNotWaitForEachOther) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::array<Meeting, 4> meetings;
    std::array<std::string, 2> orders;
    std::thread other([&] { RunRank(seed + 1000, 1, meetings, orders[1]); });
    RunRank(seed, 0, meetings, orders[0]);
    other.join();
    for (std::string order : orders) {
      EXPECT_LT(order.find('0'), order.find('2'));
      EXPECT_LT(order.find('1'), order.find('3'));
      EXPECT_EQ(order.size(), 4);
    }
  }
}

TEST(RandomOrder, CompletionsThatNeverComeEndAtTheDeadline) {
  const std::unique_ptr<Device> device = MakeDevice(3, {.deadline_seconds = 0.05});
  Letters letters;
  std::array<Completion, 2> completions;
  const Work gather{.run = [] { return absl::OkStatus(); }, .completion = &completions[0]};
  const Work reload{.run = [] { return absl::OkStatus(); }, .completion = &completions[1]};
  device->Enqueue(Stream::kGather, &gather);
  device->Enqueue(Stream::kGather, letters.Write('G'));
  device->Enqueue(Stream::kReload, &reload);
  device->Enqueue(Stream::kCompute, letters.Write('C'));
  const absl::Status status = device->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("streams gather, reload"), std::string::npos) << status;
  EXPECT_EQ(letters.Take(), "C");
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST(RandomOrder, ThreadsAreThoseOfTheStreamAndPutBack) {
  if (omp_get_thread_limit() < 3) GTEST_SKIP() << "needs three threads";
  const std::unique_ptr<Device> device = MakeDevice(3, {.threads = 3});
  const int before = omp_get_max_threads();
  int compute = 0;
  int reduce = 0;
  const Work ask_compute{.run = [&] {
    compute = omp_get_max_threads();
    return absl::OkStatus();
  }};
  const Work ask_reduce{.run = [&] {
    reduce = omp_get_max_threads();
    return absl::OkStatus();
  }};
  device->Enqueue(Stream::kCompute, &ask_compute);
  device->Enqueue(Stream::kReduce, &ask_reduce);
  ASSERT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(compute, 3);
  EXPECT_EQ(reduce, 1);
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace reprise
