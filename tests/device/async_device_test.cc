// The `cpu` device with streams as worker threads.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/device.h"
#include "tests/device/gate.h"

namespace reprise {
namespace {

using testing::Gate;

std::unique_ptr<Device> MakeDevice(CpuDeviceOptions options = {}) {
  absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice(options);
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->ReserveEvents(8);
  return *std::move(device);
}

Work Do(std::function<void()> run) {
  return {.run = [run = std::move(run)] {
    run();
    return absl::OkStatus();
  }};
}

TEST(AsyncDevice, WorkOnOneStreamRunsInOrderAlsoBeyondTheQueue) {
  constexpr int kCount = 20000;  // more than a queue holds
  const std::unique_ptr<Device> device = MakeDevice();
  std::vector<int> order;
  std::deque<Work> works;
  for (int i = 0; i < kCount; ++i) {
    works.push_back(Do([&order, i] { order.push_back(i); }));
    device->Enqueue(Stream::kGather, &works.back());
  }
  ASSERT_TRUE(device->Synchronize().ok());
  ASSERT_EQ(order.size(), kCount);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(order[i], i);
}

// In both orders of streams.
TEST(CpuDevices, TellWhenWorkRan) {
  for (const bool random : {false, true}) {
    const std::unique_ptr<Device> device = MakeDevice({.stream_order = {.random = random, .seed = 1}});
    const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
    WorkTimes first_times;
    WorkTimes second_times;
    Work first = Do(nap);
    first.times = &first_times;
    Completion completion;
    Work second;  // ends with its completion
    second.times = &second_times;
    second.completion = &completion;
    std::thread finisher;
    second.run = [&] {
      finisher = std::thread([&] {
        nap();
        completion.Finish(absl::OkStatus());
      });
      return absl::OkStatus();
    };
    device->ResetStatistics();
    device->Enqueue(Stream::kCompute, &first);
    device->Record(Stream::kCompute, 0);
    device->Wait(Stream::kReduce, 0);
    device->Enqueue(Stream::kReduce, &second);
    ASSERT_TRUE(device->Synchronize().ok());
    finisher.join();
    EXPECT_GE(first_times.start_ns, 0);
    EXPECT_GE(first_times.end_ns - first_times.start_ns, 10'000'000);
    EXPECT_GE(second_times.start_ns, first_times.end_ns);
    EXPECT_GE(second_times.end_ns - second_times.start_ns, 10'000'000);
  }
}

TEST(CpuDevices, HaveTheirMemoryInTheHosts) {
  const std::unique_ptr<Device> device = MakeDevice({.arena_bytes = 16});
  EXPECT_TRUE(device->memory_is_of_host());
  const absl::StatusOr<std::byte*> more = device->TakeMemory(3);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*more) % 256, 0);
  EXPECT_EQ((*more)[2], std::byte{0});
  const std::array<std::byte, 2> sent = {std::byte{7}, std::byte{9}};
  std::array<std::byte, 2> got{};
  ASSERT_TRUE(device->CopyToDevice(*more + 1, sent).ok());
  EXPECT_EQ((*more)[2], std::byte{9});
  ASSERT_TRUE(device->CopyToHost(absl::MakeSpan(got), *more + 1).ok());
  EXPECT_EQ(got, sent);
}

TEST(AsyncDevice, StreamsRunBesideEachOther) {
  const std::unique_ptr<Device> device = MakeDevice();
  Gate gate;
  const Work pass = Do([&] { gate.Pass(); });
  const Work open = Do([&] { gate.Open(); });
  for (const Stream stream : {Stream::kCompute, Stream::kGather, Stream::kReduce, Stream::kOffload}) {
    device->Enqueue(stream, &pass);
  }
  device->Enqueue(Stream::kReload, &open);
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST(AsyncDevice, AnEventOrdersTwoStreams) {
  const std::unique_ptr<Device> device = MakeDevice();
  int plain = 0;  // not atomic: ThreadSanitizer sees a missing order
  const Work write = Do([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++plain;
  });
  std::vector<int> seen;
  const Work read = Do([&] { seen.push_back(plain); });
  for (int i = 0; i < 20; ++i) {
    device->Enqueue(Stream::kCompute, &write);
    device->Record(Stream::kCompute, 0);
    device->Wait(Stream::kOffload, 0);
    device->Enqueue(Stream::kOffload, &read);
    device->Record(Stream::kOffload, 1);
    device->Wait(Stream::kCompute, 1);
  }
  ASSERT_TRUE(device->Synchronize().ok());
  ASSERT_EQ(seen.size(), 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(seen[i], i + 1);
}

TEST(AsyncDevice, AnEventNeverRecordedHoldsNothing) {
  const std::unique_ptr<Device> device = MakeDevice();
  bool ran = false;
  const Work work = Do([&] { ran = true; });
  device->Wait(Stream::kCompute, 7);
  device->Enqueue(Stream::kCompute, &work);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST(AsyncDevice, AWaitIgnoresLaterRecords) {
  const std::unique_ptr<Device> device = MakeDevice();
  Gate gate;
  const Work nothing = Do([] {});
  const Work pass = Do([&] { gate.Pass(); });
  const Work open = Do([&] { gate.Open(); });
  device->Enqueue(Stream::kCompute, &nothing);
  device->Record(Stream::kCompute, 0);
  device->Wait(Stream::kOffload, 0);
  device->Enqueue(Stream::kReload, &pass);  // only the work behind the wait opens this one
  device->Record(Stream::kReload, 0);
  device->Enqueue(Stream::kOffload, &open);
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST(AsyncDevice, AnEarlierRecordStillHoldsWhenALaterOneIsReachedFirst) {
  const std::unique_ptr<Device> device = MakeDevice();
  Gate gate;
  std::atomic<bool> first_done = false;
  std::atomic<bool> right = false;
  const Work slow = Do([&] {
    gate.Pass();
    first_done = true;
  });
  const Work nothing = Do([] {});
  const Work look = Do([&] { right = first_done.load(); });
  device->Enqueue(Stream::kCompute, &slow);
  device->Record(Stream::kCompute, 0);
  device->Wait(Stream::kOffload, 0);
  device->Enqueue(Stream::kReload, &nothing);
  device->Record(Stream::kReload, 0);  // reached long before
  device->Enqueue(Stream::kOffload, &look);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.Open();
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_TRUE(right);
}

TEST(AsyncDevice, TheFirstErrorSkipsTheRestOnAllStreamsAndIsCleared) {
  const std::unique_ptr<Device> device = MakeDevice();
  std::atomic<int> ran = 0;
  const Work fail{.run = [] { return absl::OutOfRangeError("loss is not finite"); }};
  const Work fail_later{.run = [] { return absl::InternalError("second"); }};
  const Work count = Do([&] { ++ran; });
  device->Enqueue(Stream::kCompute, &count);
  device->Enqueue(Stream::kCompute, &fail);
  device->Enqueue(Stream::kCompute, &count);
  device->Enqueue(Stream::kCompute, &fail_later);
  device->Record(Stream::kCompute, 0);
  for (const Stream stream : {Stream::kGather, Stream::kReduce, Stream::kOffload, Stream::kReload}) {
    device->Wait(stream, 0);
    device->Enqueue(stream, &count);
  }
  EXPECT_EQ(device->Synchronize(), absl::OutOfRangeError("loss is not finite"));
  EXPECT_EQ(ran, 1);
  device->Enqueue(Stream::kReload, &count);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(ran, 2);
}

TEST(AsyncDevice, AnExceptionIsAnError) {
  const std::unique_ptr<Device> device = MakeDevice();
  const Work no_memory = Do([] { throw std::bad_alloc(); });
  const Work text = Do([] { throw std::runtime_error("could not create a primitive"); });
  const Work number = Do([] { throw 7; });
  device->Enqueue(Stream::kCompute, &no_memory);
  absl::Status status = device->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find(std::bad_alloc().what()), std::string::npos) << status;
  device->Enqueue(Stream::kReduce, &text);
  status = device->Synchronize();
  EXPECT_EQ(status, absl::InternalError("work on stream reduce threw: could not create a primitive"));
  device->Enqueue(Stream::kReduce, &number);
  EXPECT_EQ(device->Synchronize().code(), absl::StatusCode::kInternal);
}

TEST(AsyncDevice, ACompletionHoldsItsStreamAndNoOther) {
  const std::unique_ptr<Device> device = MakeDevice();
  Completion completion;
  completion.Finish(absl::OkStatus());  // left from an earlier use: Reset comes first
  Gate started;
  std::atomic<bool> after_ran = false;
  std::atomic<bool> after_ran_early = false;
  const Work start{.run =
                       [&] {
                         started.Open();
                         return absl::OkStatus();
                       },
                   .completion = &completion};
  const Work after = Do([&] { after_ran = true; });
  const Work other = Do([&] {
    started.Pass();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    after_ran_early = after_ran.load();
    completion.Finish(absl::OkStatus());
  });
  device->Enqueue(Stream::kGather, &start);
  device->Enqueue(Stream::kGather, &after);
  device->Enqueue(Stream::kCompute, &other);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_FALSE(after_ran_early);
  EXPECT_TRUE(after_ran);
}

TEST(AsyncDevice, ErrorsOfCompletionsCount) {
  const std::unique_ptr<Device> device = MakeDevice();
  Completion completion;
  const Work lost{.run =
                      [&] {
                        completion.Finish(absl::DeadlineExceededError("rank 3 left all-gather 17"));
                        return absl::OkStatus();
                      },
                  .completion = &completion};
  device->Enqueue(Stream::kGather, &lost);
  EXPECT_EQ(device->Synchronize(), absl::DeadlineExceededError("rank 3 left all-gather 17"));
  const Work not_started{.run = [] { return absl::UnavailableError("no peer"); }, .completion = &completion};
  device->Enqueue(Stream::kGather, &not_started);  // nobody finishes what was not started
  EXPECT_EQ(device->Synchronize(), absl::UnavailableError("no peer"));
}

TEST(AsyncDevice, ACompletionThatNeverComesEndsAtTheDeadline) {
  const std::unique_ptr<Device> device = MakeDevice({.deadline_seconds = 0.05});
  Completion completion;
  const Work never{.run = [] { return absl::OkStatus(); }, .completion = &completion};
  device->Enqueue(Stream::kReduce, &never);
  const absl::Status status = device->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("stream reduce"), std::string::npos) << status;
}

TEST(AsyncDevice, WaitingIsCountedForTheStreamThatRecorded) {
  const std::unique_ptr<Device> device = MakeDevice();
  const auto gather = static_cast<int>(Stream::kGather);
  const auto compute = static_cast<int>(Stream::kCompute);
  const Work sleep = Do([] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); });
  const Work nothing = Do([] {});
  device->Enqueue(Stream::kGather, &sleep);
  device->Record(Stream::kGather, 0);
  device->Wait(Stream::kCompute, 0);
  device->Enqueue(Stream::kCompute, &nothing);
  ASSERT_TRUE(device->Synchronize().ok());
  StreamStatistics statistics = device->Statistics();
  EXPECT_GT(statistics.busy_seconds[gather], 0.05);
  EXPECT_GT(statistics.waited_seconds[compute][gather], 0.01);
  for (int of = 0; of < kStreamCount; ++of) {
    for (int on = 0; on < kStreamCount; ++on) {
      if (of == compute && on == gather) continue;
      EXPECT_EQ(statistics.waited_seconds[of][on], 0);
    }
  }
  device->ResetStatistics();
  EXPECT_EQ(device->Statistics().waited_seconds[compute][gather], 0);
  EXPECT_EQ(device->Statistics().busy_seconds[gather], 0);
}

TEST(AsyncDevice, OnlyComputeHasMoreThanOneThread) {
  if (omp_get_thread_limit() < 3) GTEST_SKIP() << "needs three threads";
  const std::unique_ptr<Device> device = MakeDevice({.threads = 3});
  int compute = 0;
  int offload = 0;
  const Work ask_compute = Do([&] { compute = omp_get_max_threads(); });
  const Work ask_offload = Do([&] { offload = omp_get_max_threads(); });
  device->Enqueue(Stream::kCompute, &ask_compute);
  device->Enqueue(Stream::kOffload, &ask_offload);
  ASSERT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(compute, 3);
  EXPECT_EQ(offload, 1);
}

TEST(AsyncDevice, ADeviceThatGoesWithWorkQueuedSkipsIt) {
  Gate gate;
  std::atomic<bool> ran = false;
  const Work pass = Do([&] { gate.Pass(); });
  const Work late = Do([&] { ran = true; });
  std::unique_ptr<Device> device = MakeDevice();
  device->Enqueue(Stream::kCompute, &pass);
  device->Record(Stream::kCompute, 0);
  device->Wait(Stream::kReload, 0);
  device->Enqueue(Stream::kReload, &late);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.Open();
  });
  device.reset();
  opener.join();
  EXPECT_FALSE(ran);
}

TEST(CpuDevice, RefusesOptionsThatMakeNoSense) {
  EXPECT_EQ(MakeCpuDevice({.threads = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuDevice({.deadline_seconds = 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuDevice({.arena_bytes = -1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuDevice, DescribesItself) {
  if (omp_get_thread_limit() < 3) GTEST_SKIP() << "needs three threads";
  EXPECT_EQ(MakeDevice({.threads = 2})->Description().substr(0, 16), "cpu, 2 threads, ");
  EXPECT_EQ(MakeDevice()->Description().substr(0, 15), "cpu, 1 thread, ");
}

TEST(CpuDeviceDeathTest, AnEventThatWasNotReservedIsABrokenInvariant) {
  const std::unique_ptr<Device> device = MakeDevice({.stream_order = {.random = true}});
  EXPECT_DEATH(device->Record(Stream::kCompute, 8), "event 8 of 8");
}

TEST(Streams, HaveNames) {
  std::string names;
  for (const Stream stream : kAllStreams) names += std::string(StreamName(stream)) + " ";
  EXPECT_EQ(names, "compute gather reduce offload reload ");
}

}  // namespace
}  // namespace reprise
