// Arenas and poison.
#include "device/host_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "device/device.h"
#include "device/poison.h"

namespace reprise {
namespace {

constexpr int64_t kPebibyte = int64_t{1} << 50;

TEST(Arena, IsAlignedAndWritable) {
  const absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice({.arena_bytes = 3 * 4096 + 5});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->arena_bytes(), 3 * 4096 + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*device)->arena()) % 4096, 0);
  std::memset((*device)->arena(), 7, (*device)->arena_bytes());
  EXPECT_EQ((*device)->arena()[3 * 4096 + 4], std::byte{7});
}

TEST(Arena, ImpossibleSizeIsRefusedWithTheBytes) {
  for (const bool random : {false, true}) {
    const absl::Status status = MakeCpuDevice({.arena_bytes = kPebibyte, .stream_order = {.random = random}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("1125899906842624"), std::string::npos) << status;
    EXPECT_NE(status.message().find("available"), std::string::npos) << status;
  }
}

TEST(HostMemory, IsWholePagesAndZero) {
  absl::StatusOr<HostMemory> memory = HostMemory::Take("a test", 4097, /*touch=*/true);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes(), 8192);
  for (int64_t i = 0; i < memory->bytes(); ++i) ASSERT_EQ(memory->data()[i], std::byte{0});
  const HostMemory moved = *std::move(memory);
  EXPECT_EQ(moved.bytes(), 8192);
  EXPECT_EQ(memory->data(), nullptr);  // NOLINT(bugprone-use-after-move): that is what is asked
}

TEST(HostMemory, RefusesWhatIsNoSize) {
  EXPECT_EQ(HostMemory::Take("a test", -1, true).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HostMemory::Take("a test", INT64_MAX, true).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<HostMemory> none = HostMemory::Take("a test", 0, true);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->data(), nullptr);
}

TEST(Poison, IsNotANumberInEveryFormat) {
  absl::StatusOr<HostMemory> memory = HostMemory::Take("a test", 4096, true);
  ASSERT_TRUE(memory.ok());
  PoisonBytes(memory->data() + 64, 128);
  PoisonBytes(memory->data() + 64, 128);  // twice is allowed
  UnpoisonBytes(memory->data() + 64, 128);
  for (int offset = 64; offset < 192; offset += 4) {
    float value = 0;
    std::memcpy(&value, memory->data() + offset, 4);
    EXPECT_TRUE(std::isnan(value));
    uint32_t bf16_bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bf16_bits) + 2, memory->data() + offset,
                2);  // bf16: a float's upper half
    std::memcpy(&value, &bf16_bits, 4);
    EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_EQ(memory->data()[63], std::byte{0});
  EXPECT_EQ(memory->data()[192], std::byte{0});
}

#ifdef __SANITIZE_ADDRESS__
TEST(PoisonDeathTest, TouchingItIsReported) {
  absl::StatusOr<HostMemory> memory = HostMemory::Take("a test", 4096, true);
  ASSERT_TRUE(memory.ok());
  PoisonBytes(memory->data() + 64, 128);
  const volatile std::byte* data = memory->data();
  EXPECT_DEATH(static_cast<void>(std::to_integer<int>(data[100])), "use-after-poison");
  UnpoisonBytes(memory->data() + 64, 128);
  EXPECT_EQ(std::to_integer<int>(data[100]), 0xFF);
}
#endif

}  // namespace
}  // namespace reprise
