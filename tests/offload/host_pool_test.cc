#include "offload/host_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace reprise {
namespace {

TEST(HostPool, IsExactlyWholePages) {
  for (const auto& [asked, given] : {std::pair<int64_t, int64_t>{1, 4096},
                                     {4096, 4096},
                                     {4097, 8192},
                                     {(5 << 20) + 1, (5 << 20) + 4096}}) {  // a power of two would be 8 MiB
    const absl::StatusOr<std::unique_ptr<HostPool>> pool = HostPool::Create(asked);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ((*pool)->bytes(), given);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*pool)->data()) % 4096, 0);
  }
}

TEST(HostPool, GivesBackWhatWasWritten) {
  const absl::StatusOr<std::unique_ptr<HostPool>> pool = HostPool::Create(10000);
  ASSERT_TRUE(pool.ok()) << pool.status();
  HostStore& store = **pool;
  std::vector<std::byte> bytes(3000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(store.Write(5000, bytes).ok());
  std::vector<std::byte> back(3000);
  ASSERT_TRUE(store.Read(5000, absl::MakeSpan(back)).ok());
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(std::memcmp((*pool)->Region(5000, 3000), bytes.data(), 3000), 0);
  EXPECT_EQ(store.data() + 5000, (*pool)->Region(5000, 3000));
}

TEST(HostPool, RefusesWhatCannotBe) {
  EXPECT_EQ(HostPool::Create(-1).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status status = HostPool::Create(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("the host pool needs 1125899906842624 bytes"), std::string::npos) << status;
}

TEST(HostPool, MayBeEmpty) {
  const absl::StatusOr<std::unique_ptr<HostPool>> pool = HostPool::Create(0);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->bytes(), 0);
  EXPECT_TRUE((*pool)->Write(0, {}).ok());
}

TEST(HostPool, SaysWhetherItIsPinned) {
  const absl::StatusOr<std::unique_ptr<HostPool>> pool = HostPool::Create(8192);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->Description(),
            (*pool)->pinned() ? "host memory, 8.0 KiB, pinned" : "host memory, 8.0 KiB, not pinned");
}

TEST(HostPoolDeathTest, ReachingBeyondThePoolIsABrokenInvariant) {
  const absl::StatusOr<std::unique_ptr<HostPool>> pool = HostPool::Create(4096);
  ASSERT_TRUE(pool.ok()) << pool.status();
  std::array<std::byte, 8> bytes{};
  EXPECT_DEATH((*pool)->Region(4090, 8), "host pool of 4096");
  EXPECT_DEATH((*pool)->Region(-1, 8), "host pool of 4096");
  EXPECT_DEATH((*pool)->Region(1, INT64_MAX), "host pool of 4096");
  EXPECT_DEATH(static_cast<void>((*pool)->Write(4095, bytes)), "host pool of 4096");
}

}  // namespace
}  // namespace reprise
