// The CUDA device's own code, over a stand-in for CUDA's runtime whose streams run in seeded orders.
#include "device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/current_stream.h"
#include "tests/tools/cuda/runtime.h"

namespace reprise {
namespace {

using cuda::MakeCudaDevice;
using ::testing::HasSubstr;

// Work that puts `body` onto its stream, as a kernel does.
Work Kernel(std::function<void()> body) {
  return {.run = [body = std::move(body)] {
    testing::EnqueueOnStream(cuda::CurrentStream(), body);
    return absl::OkStatus();
  }};
}

// A value goes from compute over the offload stream to the reload stream, twice; with `waits`, each step waits for the
// one before. Returns what arrived.
absl::StatusOr<std::pair<int, int>> Relay(uint64_t seed, bool waits) {
  testing::ResetRuntime({.seed = seed});
  auto made = MakeCudaDevice({.arena_bytes = 1 << 20});
  if (!made.ok()) return made.status();
  Device& device = **made;
  auto* values = reinterpret_cast<int*>(device.arena());
  std::memset(values, 0, 64);
  const Work produce = Kernel([=] { values[0] += 5; });
  const Work offload = Kernel([=] { values[1] = values[0]; });
  const Work reload = Kernel([=] { values[2] += values[1]; });
  device.ReserveEvents(3);
  std::pair<int, int> arrived;
  for (int round = 0; round < 2; ++round) {
    if (waits && round > 0) device.Wait(Stream::kCompute, 2);
    device.Enqueue(Stream::kCompute, &produce);
    device.Record(Stream::kCompute, 0);
    if (waits) device.Wait(Stream::kOffload, 0);
    device.Enqueue(Stream::kOffload, &offload);
    device.Record(Stream::kOffload, 1);
    if (waits) device.Wait(Stream::kReload, 1);
    device.Enqueue(Stream::kReload, &reload);
    device.Record(Stream::kReload, 2);
  }
  const absl::Status status = device.Synchronize();
  if (!status.ok()) return status;
  arrived = {values[1], values[2]};
  return arrived;
}

TEST(CudaDevice, EventsOrderStreams) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto arrived = Relay(seed, true);
    ASSERT_TRUE(arrived.ok()) << arrived.status();
    EXPECT_EQ(*arrived, std::make_pair(10, 15)) << seed;
  }
  EXPECT_EQ(testing::LiveObjects(), 0);
}

TEST(CudaDevice, MissingWaitsAreSeen) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    if (*Relay(seed, false) != std::make_pair(10, 15)) ++wrong;
  }
  EXPECT_GT(wrong, 25);
}

TEST(CudaDevice, EventsThatWereNotRecordedHoldNothing) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({.arena_bytes = 1});
  device->ReserveEvents(1);
  int ran = 0;
  const Work work = Kernel([&] { ++ran; });
  device->Wait(Stream::kGather, 0);
  device->Enqueue(Stream::kGather, &work);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(ran, 1);
}

TEST(CudaDevice, WorkAndDoneComeInTurn) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    testing::ResetRuntime({.seed = seed});
    auto device = *MakeCudaDevice({});
    std::string order;
    Work first = Kernel([&] { order += "a"; });
    first.done = [&] { order += "b"; };
    Work second = Kernel([&] { order += "c"; });
    second.done = [&] { order += "d"; };
    device->Enqueue(Stream::kReduce, &first);
    device->Enqueue(Stream::kReduce, &second);
    EXPECT_EQ(order, "");
    EXPECT_TRUE(device->Synchronize().ok());
    EXPECT_EQ(order, "abcd");
    EXPECT_EQ(cuda::CurrentStream(), nullptr);
  }
}

TEST(CudaDevice, FirstErrorOfWorkStopsTheStepAndNotTheNext) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({});
  int ran = 0;
  const Work good = Kernel([&] { ++ran; });
  const Work bad = {.run = [] { return absl::DataLossError("torn"); }};
  device->Enqueue(Stream::kCompute, &good);
  device->Enqueue(Stream::kCompute, &bad);
  device->Enqueue(Stream::kGather, &good);
  EXPECT_EQ(device->Synchronize(), absl::DataLossError("torn"));
  EXPECT_EQ(ran, 1);
  device->Enqueue(Stream::kGather, &good);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(ran, 2);
}

TEST(CudaDevice, SynchronizeWaitsForCompletions) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({.deadline_seconds = 0.05});
  device->ReserveEvents(1);
  Completion completion;
  Work collective = Kernel([&] { completion.Finish(absl::UnavailableError("rank 1 is gone")); });
  collective.completion = &completion;
  device->Enqueue(Stream::kGather, &collective);
  EXPECT_EQ(device->Synchronize(), absl::UnavailableError("rank 1 is gone"));

  completion.Reset();
  Work lost = Kernel([] {});
  lost.completion = &completion;
  device->Enqueue(Stream::kGather, &lost);
  EXPECT_EQ(device->Synchronize().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CudaDevice, CopiesBetweenTheHostAndItsMemory) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({.arena_bytes = 64});
  EXPECT_FALSE(device->memory_is_of_host());
  const absl::StatusOr<std::byte*> more = device->TakeMemory(48);
  ASSERT_TRUE(more.ok()) << more.status();
  std::array<std::byte, 48> zeros{};
  std::array<std::byte, 48> got;
  got.fill(std::byte{1});
  ASSERT_TRUE(device->CopyToHost(absl::MakeSpan(got), *more).ok());
  EXPECT_EQ(got, zeros);
  std::array<std::byte, 48> sent;
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 3);
  for (std::byte* place : {*more, device->arena() + 8}) {
    ASSERT_TRUE(device->CopyToDevice(place, sent).ok());
    ASSERT_TRUE(device->CopyToHost(absl::MakeSpan(got), place).ok());
    EXPECT_EQ(got, sent);
  }
  EXPECT_TRUE(device->CopyToDevice(*more, {}).ok());
}

// A kernel on one stream that another waits for: the second begins when the first has ended, and that is its wait.
TEST(CudaDevice, TellsWhenWorkRanAndWhatStreamsWaitedFor) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({});
  device->ReserveEvents(1);
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  Work gather = Kernel(nap);
  Work forward = Kernel([] {});
  WorkTimes gather_times;
  WorkTimes forward_times;
  gather.times = &gather_times;
  forward.times = &forward_times;
  device->ResetStatistics();
  device->Enqueue(Stream::kGather, &gather);
  device->Record(Stream::kGather, 0);
  device->Wait(Stream::kCompute, 0);
  device->Enqueue(Stream::kCompute, &forward);
  ASSERT_TRUE(device->Synchronize().ok());
  EXPECT_GE(gather_times.end_ns - gather_times.start_ns, 20'000'000);
  EXPECT_GE(forward_times.start_ns, gather_times.end_ns);
  const StreamStatistics statistics = device->Statistics();
  const auto& waited = statistics.waited_seconds[static_cast<size_t>(Stream::kCompute)];
  EXPECT_GE(waited[static_cast<size_t>(Stream::kGather)], 0.02);
  EXPECT_EQ(waited[static_cast<size_t>(Stream::kReduce)], 0);
  EXPECT_GE(statistics.busy_seconds[static_cast<size_t>(Stream::kGather)], 0.02);
  device->ResetStatistics();
  EXPECT_EQ(device->Statistics().busy_seconds[static_cast<size_t>(Stream::kGather)], 0);
}

// A collective that hangs is seen by whoever watches it, who ends it.
TEST(CudaDevice, AsksItsMonitorWhileItWaits) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({.deadline_seconds = 60});
  bool given_up = false;
  device->SetMonitor([&] {
    given_up = true;
    return absl::UnavailableError("rank 1 is gone");
  });
  const Work hangs = {.run = [&] {
    testing::EnqueueWhenReady(cuda::CurrentStream(), [&](bool /*first*/) { return given_up; });
    return absl::OkStatus();
  }};
  device->Enqueue(Stream::kGather, &hangs);
  EXPECT_EQ(device->Synchronize(), absl::UnavailableError("rank 1 is gone"));
  device->SetMonitor(nullptr);
  EXPECT_TRUE(device->Synchronize().ok());
}

// A step of three streams, kept once and started three times, in any order that its events allow.
TEST(CudaDevice, StartsAStepAsAWhole) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    testing::ResetRuntime({.seed = seed});
    auto device = *MakeCudaDevice({.arena_bytes = 1 << 12});
    auto* values = reinterpret_cast<int*>(device->arena());
    const Work produce = Kernel([=] { values[0] += 5; });
    const Work offload = Kernel([=] { values[1] = values[0]; });
    const Work reload = Kernel([=] { values[2] += values[1]; });
    device->ReserveEvents(2);
    ASSERT_TRUE(device->BeginCapture().ok());
    device->Enqueue(Stream::kCompute, &produce);
    device->Record(Stream::kCompute, 0);
    device->Wait(Stream::kOffload, 0);
    device->Enqueue(Stream::kOffload, &offload);
    device->Record(Stream::kOffload, 1);
    device->Wait(Stream::kReload, 1);
    device->Enqueue(Stream::kReload, &reload);
    const absl::StatusOr<int> step = device->EndCapture();
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(values[0], 0);  // nothing has run
    for (int round = 1; round <= 3; ++round) {
      device->Replay(*step);
      ASSERT_TRUE(device->Synchronize().ok());
      EXPECT_EQ(values[0], 5 * round) << seed;
      EXPECT_EQ(values[2], 5 * round * (round + 1) / 2) << seed;
    }
  }
  EXPECT_EQ(testing::LiveObjects(), 0);
}

// What cannot be part of a graph is said, and the device goes on.
TEST(CudaDevice, AStepThatWaitsInItsMiddleIsNotCaptured) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({.arena_bytes = 16});
  const Work waits = {.run = [&] {
    std::array<std::byte, 16> bytes;
    return device->CopyToHost(absl::MakeSpan(bytes), device->arena());
  }};
  ASSERT_TRUE(device->BeginCapture().ok());
  device->Enqueue(Stream::kCompute, &waits);
  EXPECT_FALSE(device->EndCapture().ok());
  int ran = 0;
  const Work good = Kernel([&] { ++ran; });
  device->Enqueue(Stream::kGather, &good);
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_EQ(ran, 1);
}

TEST(CudaDevice, ErrorsNameTheWork) {
  testing::ResetRuntime({});
  auto device = *MakeCudaDevice({});
  Work work = {.run = [] {
    testing::FailLaunch();
    return absl::OkStatus();
  }};
  work.label = "backward of h.3";
  device->Enqueue(Stream::kCompute, &work);
  const std::string message(device->Synchronize().message());
  EXPECT_THAT(message, HasSubstr("start backward of h.3 on the stream compute"));
}

TEST(CudaDevice, RefusesAMachineWithoutDevices) {
  testing::ResetRuntime({.devices = 0});
  const absl::Status none = MakeCudaDevice({}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("use device=cpu"));
  testing::ResetRuntime({.devices = 2});
  const absl::Status third = MakeCudaDevice({.device = 2}).status();
  EXPECT_EQ(third.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(third.message()), HasSubstr("which has 2"));
}

TEST(CudaDevice, TakesItsArenaInStepsAndSaysWhatIsFree) {
  constexpr int64_t kMemory = int64_t{64} << 20;
  testing::ResetRuntime({.memory_bytes = kMemory});
  EXPECT_TRUE(MakeCudaDevice({.arena_bytes = kMemory}).ok());
  EXPECT_TRUE(MakeCudaDevice({.arena_bytes = kMemory - cuda::kArenaStep + 1}).ok());
  const absl::Status status = MakeCudaDevice({.arena_bytes = kMemory + 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("69206016 bytes"));  // 66 MiB
  EXPECT_THAT(std::string(status.message()), HasSubstr("67108864 bytes"));
  EXPECT_EQ(testing::LiveObjects(), 0);
}

// Each call of the runtime fails in turn: one sentence comes out, and everything is given back.
TEST(CudaDevice, EveryCallMayFail) {
  const auto script = []() -> absl::Status {
    auto made = MakeCudaDevice({.arena_bytes = 4096});
    if (!made.ok()) return made.status();
    Device& device = **made;
    device.ReserveEvents(2);
    Work work = Kernel([] {});
    work.done = [] {};
    WorkTimes times;
    work.times = &times;
    const absl::StatusOr<std::byte*> more = device.TakeMemory(8);
    if (!more.ok()) return more.status();
    const std::array<std::byte, 8> bytes{};
    if (absl::Status status = device.CopyToDevice(*more, bytes); !status.ok()) return status;
    device.ResetStatistics();
    device.Enqueue(Stream::kCompute, &work);
    device.Record(Stream::kCompute, 0);
    device.Wait(Stream::kOffload, 0);
    device.Enqueue(Stream::kOffload, &work);
    return device.Synchronize();
  };
  testing::ResetRuntime({});
  ASSERT_TRUE(script().ok());
  const int64_t calls = testing::RuntimeCalls();
  ASSERT_GT(calls, 15);
  for (int64_t call = 0; call < calls; ++call) {
    testing::ResetRuntime({.failing_call = call});
    const absl::Status status = script();
    if (testing::RuntimeCalls() <= call) continue;  // how often streams are asked depends on the order
    EXPECT_FALSE(status.ok()) << "call " << call;
    EXPECT_THAT(std::string(status.message()), HasSubstr("unspecified launch failure")) << "call " << call;
    EXPECT_EQ(testing::LiveObjects(), 0) << "call " << call;
  }
}

}  // namespace
}  // namespace reprise
