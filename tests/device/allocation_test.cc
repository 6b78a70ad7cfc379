// Issuing a step allocates nothing, nor do the streams that run it. operator new is replaced for the whole test
// program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "device/device.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* Allocate(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
// Not inlined: g++ would take the free for one of another allocator.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace reprise {
namespace {

void IssueSteps(Device& device, const Work& work, const Work& transfer, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 100; ++i) {
      device.Enqueue(Stream::kGather, &transfer);
      device.Record(Stream::kGather, 0);
      device.Wait(Stream::kCompute, 0);
      device.Enqueue(Stream::kCompute, &work);
      device.Record(Stream::kCompute, 1);
      device.Wait(Stream::kOffload, 1);
      device.Enqueue(Stream::kOffload, &work);
    }
    ASSERT_TRUE(device.Synchronize().ok());
  }
}

void ExpectNoAllocation(const StreamOrder& order) {
  const absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice({.stream_order = order});
  ASSERT_TRUE(device.ok());
  (*device)->ReserveEvents(2);
  Completion completion;
  const Work work{.run = [] { return absl::OkStatus(); }};
  const Work transfer{.run =
                          [&] {
                            completion.Finish(absl::OkStatus());
                            return absl::OkStatus();
                          },
                      .completion = &completion};
  IssueSteps(**device, work, transfer, 5);  // a thread's first waits may set it up
  allocations = 0;
  counting = true;
  IssueSteps(**device, work, transfer, 20);
  counting = false;
  EXPECT_EQ(allocations, 0);
}

TEST(Allocation, NoneInAsyncOrder) { ExpectNoAllocation({}); }
TEST(Allocation, NoneInRandomOrder) { ExpectNoAllocation({.random = true, .seed = 4}); }

TEST(Allocation, TheCounterCounts) {
  counting = true;
  const std::unique_ptr<int> number = std::make_unique<int>(1);
  counting = false;
  EXPECT_EQ(*number, 1);
  EXPECT_GT(allocations.exchange(0), 0);
}

}  // namespace
}  // namespace reprise
