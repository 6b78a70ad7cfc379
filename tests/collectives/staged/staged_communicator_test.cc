// The communicator `staged` over `local`, and a stand-in for CUDA's runtime: ranks are threads with a GPU each.
#include "collectives/staged/staged_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_device.h"
#include "tests/collectives/device_step.h"
#include "tests/tools/collective_checks.h"
#include "tests/tools/cuda/runtime.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {
namespace {

using cuda::MakeCudaDevice;
using cuda::MakeStagedCommunicator;
using cuda::StagedOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

// All at once, and in pieces that no size is a multiple of.
constexpr int64_t kPieces[] = {StagedOptions().piece_bytes, 3 * 12800};

class StagedRanks : public ::testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  static void Check(void (*check)(Communicator&)) {
    ResetRuntime({.seed = 3});
    RunRanks(std::get<0>(GetParam()), [check](Communicator& ranks) {
      const auto communicator = MakeStagedCommunicator(ranks, {.piece_bytes = std::get<1>(GetParam())});
      ASSERT_EQ(communicator.status(), absl::OkStatus());
      check(**communicator);
    });
    EXPECT_EQ(LiveObjects(), 0);
  }
};

INSTANTIATE_TEST_SUITE_P(SizesAndPieces, StagedRanks,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::ValuesIn(kPieces)));

TEST_P(StagedRanks, AllGather) { Check(CheckAllGather); }
TEST_P(StagedRanks, ReduceScatter) { Check(CheckReduceScatter); }
TEST_P(StagedRanks, ReduceScatterAccumulates) { Check(CheckReduceScatterAccumulates); }
TEST_P(StagedRanks, ReduceScatterInPlace) { Check(CheckReduceScatterInPlace); }
TEST_P(StagedRanks, AllReduce) { Check(CheckAllReduce); }
TEST_P(StagedRanks, Broadcast) { Check(CheckBroadcast); }
TEST_P(StagedRanks, Barrier) { Check(CheckBarrier); }

TEST(StagedCommunicator, KnowsWhereItIsAndWhatItTook) {
  ResetRuntime({});
  RunRanks(2, [](Communicator& ranks) {
    const auto communicator = MakeStagedCommunicator(ranks, {.piece_bytes = 4096});
    ASSERT_EQ(communicator.status(), absl::OkStatus());
    EXPECT_EQ((*communicator)->rank(), ranks.rank());
    EXPECT_EQ((*communicator)->size(), 2);
    EXPECT_EQ((*communicator)->hosts(), ranks.hosts());
    EXPECT_EQ((*communicator)->overhead_bytes(), ranks.overhead_bytes() + 4096 + 2048);
  });
}

absl::StatusOr<std::vector<float>> Rounds(Communicator& ranks, int rounds) {
  ASSIGN_OR_RETURN(const auto device, MakeCudaDevice({}));
  ASSIGN_OR_RETURN(const auto communicator, MakeStagedCommunicator(ranks, {.piece_bytes = 256}));
  return GatherAndReduce(*communicator, *device, rounds);
}

// A call waits for the events before it and for nothing behind; what stands behind it finds its result.
TEST(StagedCommunicator, StreamsOrderWhatIsGatheredAndSummed) {
  for (const int size : {1, 2, 3}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      ResetRuntime({.seed = 100 * seed});
      RunRanks(size, [&](Communicator& ranks) {
        const auto sum = Rounds(ranks, 3);
        ASSERT_EQ(sum.status(), absl::OkStatus());
        for (int i = 0; i < kStepShard; ++i) {
          EXPECT_EQ((*sum)[static_cast<size_t>(i)], static_cast<float>(3 * size * (100 * ranks.rank() + i)));
        }
      });
      EXPECT_EQ(LiveObjects(), 0);
    }
  }
}

TEST(StagedCommunicator, ErrorsOfTheRanksAreItsOwn) {
  ResetRuntime({});
  RunRanks(
      2,
      [](Communicator& ranks) {
        const auto communicator = MakeStagedCommunicator(ranks, {});
        ASSERT_EQ(communicator.status(), absl::OkStatus());
        if (ranks.rank() == 1) return;
        std::vector<std::byte> whole(512);
        Completion done;
        (*communicator)->AllGather(Sequence::kGather, {"h.7", whole.data(), 128}, &done);
        EXPECT_EQ(done.Wait().code(), absl::StatusCode::kDeadlineExceeded);
        EXPECT_THAT(std::string(done.Wait().message()), AllOf(HasSubstr("all-gather of 'h.7'"), HasSubstr("rank 1")));
        Completion later;
        (*communicator)->Barrier(Sequence::kReduce, &later);
        EXPECT_EQ(later.Wait(), done.Wait());
      },
      0.2);
}

absl::Status UseAll(Communicator& ranks) {
  ASSIGN_OR_RETURN(const auto communicator, MakeStagedCommunicator(ranks, {.piece_bytes = 256}));
  std::vector<float> whole(static_cast<size_t>(ranks.size()) * 40, 1.0F);
  std::vector<float> sum(40);
  double number = 1;
  auto* bytes = reinterpret_cast<std::byte*>(whole.data());
  Completion done;
  const auto wait = [&done] {
    absl::Status status = done.Wait();
    done.Reset();
    return status;
  };
  communicator->AllGather(Sequence::kGather, {"a", bytes, 160}, &done);
  RETURN_IF_ERROR(wait());
  communicator->ReduceScatter(Sequence::kGather, {"b", whole.data(), sum.data(), 40, true}, &done);
  RETURN_IF_ERROR(wait());
  EXPECT_EQ(sum[39], static_cast<float>(ranks.size()));
  RETURN_IF_ERROR(AllReduce(*communicator, "c", absl::MakeSpan(&number, 1)));
  EXPECT_EQ(number, ranks.size());
  RETURN_IF_ERROR(Broadcast(*communicator, "d", absl::MakeSpan(bytes, 160), 0));
  return Barrier(*communicator);
}

// On one of two ranks.
TEST(StagedCommunicator, EveryCallOfCudaMayFail) {
  int64_t calls = 0;
  ResetRuntime({});
  RunRanks(2, [&](Communicator& ranks) {
    EXPECT_EQ(UseAll(ranks), absl::OkStatus());
    if (ranks.rank() == 0) calls = RuntimeCalls();
  });
  constexpr int kTaken = 2;  // blocks of pinned memory, taken before anything is started
  ASSERT_GT(calls, 20);
  for (int64_t call = 0; call < calls; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    ResetRuntime({});
    RunRanksThatEnd(2, [&](Communicator& ranks) {
      if (ranks.rank() == 0) FailCall(call);
      const absl::Status status = UseAll(ranks);
      if (ranks.rank() == 1) return;  // it may have been through already
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(call < kTaken ? "page-locked memory" : "rank 0: "),
                        HasSubstr("unspecified launch failure (cudaErrorLaunchFailure)")));
    });
    EXPECT_EQ(LiveObjects(), 0);
  }
}

}  // namespace
}  // namespace reprise::testing
