// The core of the equality matrix on the CUDA device, over the stand-in for CUDA's runtime: kernels on fibers, streams
// in seeded orders, ranks as threads with a GPU each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/cuda/nccl.h"
#include "tests/tools/cuda/runtime.h"
#include "tests/tools/equality.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::ExpectCounts;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::ResetRuntime;
using ::reprise::testing::RunOnLocalRanks;

constexpr int kLayers = 3;  // fibers are slow

// `devices` of the node: ranks that have one each meet over NCCL, those that share one over the host's memory.
std::vector<CellOutcome> RunWithSeed(const EqualityCell& cell, uint64_t seed, int devices) {
  ResetRuntime({.seed = seed, .devices = devices});
  std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
  EXPECT_EQ(testing::LiveObjects(), 0) << cell.Name();
  EXPECT_EQ(testing::LiveNcclCommunicators(), 0) << cell.Name();
  return outcome;
}

void ExpectSameBits(const std::vector<CellOutcome>& actual, const std::vector<CellOutcome>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t rank = 0; rank < actual.size(); ++rank) {
    EXPECT_EQ(FirstDifference(actual[rank], expected[rank]), "") << "on rank " << rank;
    for (const StepResult& step : actual[rank].steps) {
      EXPECT_EQ(step.peak_device_bytes, actual[rank].predicted_peak_bytes);
    }
  }
}

class CudaEqualityTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(CudaEqualityTest, SameBitsForEveryPolicyAndOrder) {
  EqualityCell cell = GetParam();
  const int devices = cell.ranks;
  const std::vector<CellOutcome> reference = RunWithSeed(cell.Reference(), 1, devices);
  uint64_t seed = 100;
  for (const bool offload : {false, true}) {
    for (const char* policy : {"all", "every:2"}) {
      cell.checkpoint = policy;
      cell.offload = offload;
      cell.cuda_graphs = offload == (cell.checkpoint == "all");
      SCOPED_TRACE(absl::StrCat(cell.Name(), ", seed ", ++seed));
      const std::vector<CellOutcome> outcome = RunWithSeed(cell, seed, devices);
      ExpectSameBits(outcome, reference);
      EXPECT_GT(outcome[0].steps[0].recomputed_flops, 0);
      EXPECT_EQ(outcome[0].steps[0].offloaded_bytes > 0, offload);
    }
  }
}

std::vector<EqualityCell> Cells() {
  std::vector<EqualityCell> cells;
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    for (const int ranks : {1, 2}) {
      const bool odd = (static_cast<int>(sharding) + ranks) % 2 == 1;
      cells.push_back({.sharding = sharding,
                       .dtype = odd ? DType::kBFloat16 : DType::kFloat32,
                       .dropout = odd ? 0 : 0.1,
                       .ranks = ranks,
                       .accumulation = sharding == Sharding::kOptimizer ? 1 : 2,
                       .layers = kLayers,
                       .device = "cuda"});
    }
  }
  return cells;
}

INSTANTIATE_TEST_SUITE_P(Core, CudaEqualityTest, ::testing::ValuesIn(Cells()),
                         [](const auto& info) { return info.param.Name(); });

void ExpectNear(const std::vector<CellOutcome>& cuda, const std::vector<CellOutcome>& cpu) {
  ASSERT_EQ(cuda[0].steps.size(), cpu[0].steps.size());
  for (size_t step = 0; step < cpu[0].steps.size(); ++step) {
    EXPECT_NEAR(cuda[0].steps[step].loss, cpu[0].steps[step].loss, 1e-5) << step;
    EXPECT_NEAR(cuda[0].steps[step].gradient_norm, cpu[0].steps[step].gradient_norm, 1e-5) << step;
  }
}

// The CPU's numbers, but for rounding: over NCCL's sums and over those of the host.
TEST(CudaDeviceTraining, IsNearTheCpus) {
  EqualityCell cell{.checkpoint = "all", .offload = true, .dropout = 0.1, .ranks = 2, .layers = kLayers};
  cell.device = "cpu";
  const std::vector<CellOutcome> cpu = RunOnLocalRanks(cell);
  cell.device = "cuda";
  for (const int devices : {1, 2}) {
    SCOPED_TRACE(devices);
    const std::vector<CellOutcome> cuda = RunWithSeed(cell, 3, devices);
    ExpectNear(cuda, cpu);
  }
}

// --- Each call of the runtime fails in turn -------------------------------------------------------------------------

TEST(CudaDeviceTraining, EveryCallMayFail) {
  const EqualityCell cell{.checkpoint = "all", .offload = true, .layers = 1, .device = "cuda"};
  const auto run = [&]() -> absl::Status {
    const auto alone = MakeLocalCommunicators(1, {});
    return RunCell(cell, {}, *alone[0]).status();
  };
  ResetRuntime({});
  ASSERT_TRUE(run().ok());
  const int64_t calls = testing::RuntimeCalls();
  ASSERT_GT(calls, 300);
  int failed = 0;
  // Those of the beginning, where things are made, and then every seventh: steps repeat themselves.
  for (int64_t call = 0; call < calls; call += call < 100 ? 1 : 7) {
    ResetRuntime({.failing_call = call});
    const absl::Status status = run();
    EXPECT_EQ(testing::LiveObjects(), 0) << "call " << call;
    if (testing::RuntimeCalls() <= call) continue;  // how often streams are asked depends on the order
    EXPECT_FALSE(status.ok()) << "call " << call;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("unspecified launch failure")) << "call " << call;
    ++failed;
  }
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace reprise
