#include "runtime/plan/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reprise {
namespace {

using ::testing::HasSubstr;

Hardware Simple() {
  return {.name = "simple",
          .compute_fp32 = 1e12,
          .compute_bf16 = 4e12,
          .memory = 1e11,
          .kernel_latency = 1e-6,
          .link = 1e10,
          .network = 2e9,
          .link_latency = 1e-5,
          .host = 5e9,
          .disk = 1e9,
          .device_memory = 1e9,
          .ranks_per_host = 4};
}

size_t At(Stream stream) { return static_cast<size_t>(stream); }

TEST(Hardware, ProductsRunAtTheComputeRate) {
  const TensorType x{DType::kFloat32, {1000, 1000}};
  const KernelSpec product{"linear", {x, x, {DType::kFloat32, {1000}}}, {x}, {}};
  const MachineTimes times = EstimateTimes(Simple(), {product}, 1);
  // 2 x 10^9 operations at 10^12 a second: 2 ms, and 1 us to begin.
  EXPECT_EQ(times.kernel_ns.at(product.ToString()), 2'001'000);
}

TEST(Hardware, TheRestRunsAtTheMemoryRate) {
  const TensorType x{DType::kFloat32, {1'000'000}};
  const KernelSpec add{"add", {x, x}, {x}, {}};
  // 12 MB at 10^11 a second: 120 us, and 1 us to begin.
  EXPECT_EQ(EstimateTimes(Simple(), {add}, 1).kernel_ns.at(add.ToString()), 121'000);
}

TEST(Hardware, CollectivesRunAtTheSlowestLinkOfTheRing) {
  // Four ranks in a host: 3/4 of 10^8 bytes at 10^10 a second, 7.5 ms, and 10 us to begin.
  EXPECT_EQ(EstimateTimes(Simple(), {}, 4).transfer[At(Stream::kGather)].Nanoseconds(100'000'000), 7'510'000);
  // Eight ranks cross the network: 7/8 of 10^8 bytes at 2 x 10^9 a second (437.5 ps a byte, rounded to 438).
  EXPECT_EQ(EstimateTimes(Simple(), {}, 8).transfer[At(Stream::kReduce)].Nanoseconds(100'000'000), 43'810'000);
  EXPECT_EQ(EstimateTimes(Simple(), {}, 8).transfer[At(Stream::kOffload)].Nanoseconds(5'000'000), 1'001'000);
}

TEST(Hardware, RefusesWhatIsNoRate) {
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Hardware hardware = Simple();
    hardware.memory = bad;
    const absl::Status status = CheckHardware(hardware);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("memory")) << bad;
  }
  Hardware hardware = Simple();
  hardware.kernel_latency = 0;
  EXPECT_TRUE(CheckHardware(hardware).ok());
}

}  // namespace
}  // namespace reprise
