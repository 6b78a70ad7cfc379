// The backend `cuda`, over the stand-in for CUDA's runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/train/backend.h"
#include "tests/tools/cuda/runtime.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::CurrentDevice;
using ::reprise::testing::ResetRuntime;
using ::reprise::testing::RunRanks;
using ::testing::HasSubstr;

const Backend& Cuda() { return **FindBackend("cuda"); }

TEST(CudaBackend, RanksOfAHostTakeItsDevicesInTurn) {
  ResetRuntime({.devices = 2});
  RunRanks(3, [](Communicator& ranks) {
    ASSERT_TRUE(Cuda().Select(ranks).ok());
    EXPECT_EQ(CurrentDevice(), ranks.rank() % 2);
    const auto device = Cuda().MakeDevice(ranks, {.arena_bytes = 256});
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(CurrentDevice(), ranks.rank() % 2);
  });
  EXPECT_EQ(testing::LiveObjects(), 0);
}

TEST(CudaBackend, SaysThatThereIsNoDevice) {
  ResetRuntime({.devices = 0});
  EXPECT_EQ(Cuda().Check().code(), absl::StatusCode::kInvalidArgument);
  RunRanks(1, [](Communicator& ranks) {
    EXPECT_THAT(std::string(Cuda().Select(ranks).message()), HasSubstr("use device=cpu"));
    EXPECT_THAT(std::string(Cuda().MakeDevice(ranks, {}).status().message()), HasSubstr("use device=cpu"));
  });
}

// What is begun on one device must not be captured with collectives that wait on the host.
TEST(CudaBackend, CapturesStepsOfRanksWithADeviceEach) {
  for (const int devices : {1, 2}) {
    ResetRuntime({.devices = devices});
    RunRanks(2, [devices](Communicator& ranks) { EXPECT_EQ(Cuda().CheckCapture(ranks).ok(), devices == 2); });
    RunRanks(1, [](Communicator& ranks) { EXPECT_TRUE(Cuda().CheckCapture(ranks).ok()); });
  }
}

TEST(Backends, AreFoundByName) {
  EXPECT_TRUE(FindBackend("cpu").ok());
  EXPECT_THAT(std::string(FindBackend("tpu").status().message()), HasSubstr("use cpu or cuda"));
}

}  // namespace
}  // namespace reprise
