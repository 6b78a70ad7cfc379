// The pinned pool, over the stand-in for CUDA's runtime.
#include "offload/cuda/pinned_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "tests/tools/cuda/runtime.h"

namespace reprise::cuda {
namespace {

using ::reprise::testing::LiveObjects;
using ::reprise::testing::ResetRuntime;

TEST(PinnedPool, IsExactlyWholePages) {
  ResetRuntime({});
  for (const auto& [asked, given] : {std::pair<int64_t, int64_t>{0, 0}, {1, 4096}, {4097, 8192}}) {
    const auto pool = MakePinnedPool(asked);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ((*pool)->bytes(), given);
  }
  EXPECT_EQ((*MakePinnedPool(8192))->Description(), "host memory, 8.0 KiB, pinned");
  EXPECT_EQ(LiveObjects(), 0);
}

// Offload on one stream, reload on another that waits for it, whatever runs first.
TEST(PinnedPool, CopiesInTheOrderOfItsStream) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ResetRuntime({.seed = seed});
    auto device = *MakeCudaDevice({.arena_bytes = 1024});
    auto pool = *MakePinnedPool(4096);
    device->ReserveEvents(1);
    std::array<std::byte, 100> sent;
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i + seed);
    ASSERT_TRUE(device->CopyToDevice(device->arena(), sent).ok());
    std::byte* const back = device->arena() + 512;
    const Work offload = {.run = [&] { return pool->Write(300, {device->arena(), sent.size()}); }};
    const Work reload = {.run = [&] { return pool->Read(300, {back, sent.size()}); }};
    device->Enqueue(Stream::kOffload, &offload);
    device->Record(Stream::kOffload, 0);
    device->Wait(Stream::kReload, 0);
    device->Enqueue(Stream::kReload, &reload);
    ASSERT_TRUE(device->Synchronize().ok());
    std::array<std::byte, 100> got{};
    ASSERT_TRUE(device->CopyToHost(absl::MakeSpan(got), back).ok());
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(LiveObjects(), 0);
}

TEST(PinnedPool, SaysWhenItCannotBeHad) {
  ResetRuntime({.failing_call = 0});
  const absl::Status status = MakePinnedPool(1).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("take 4096 bytes of page-locked memory"));
}

TEST(PinnedPoolDeathTest, ReachingBeyondThePoolIsABrokenInvariant) {
  ResetRuntime({});
  auto pool = *MakePinnedPool(4096);
  std::vector<std::byte> bytes(100);
  EXPECT_DEATH(static_cast<void>(pool->Write(4000, bytes)), "pinned pool of 4096");
}

}  // namespace
}  // namespace reprise::cuda
