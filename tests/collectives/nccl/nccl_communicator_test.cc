// The communicator `nccl` over a twin of NCCL: ranks are threads with a GPU of their own each.
#include "collectives/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_device.h"
#include "tests/collectives/device_step.h"
#include "tests/tools/collective_checks.h"
#include "tests/tools/cuda/nccl.h"
#include "tests/tools/cuda/runtime.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {
namespace {

using cuda::CudaDevice;
using cuda::MakeCudaDevice;
using cuda::MakeNcclCommunicator;
using cuda::NcclCommunicator;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a rank does, with what it has been told to fail in.
void RunNcclRanks(int size, const std::function<void(Communicator& ranks)>& rank, double deadline_seconds = 60) {
  ResetRuntime({.seed = 5, .devices = size});
  RunRanks(size, rank, deadline_seconds);
  EXPECT_EQ(LiveObjects(), 0);
  EXPECT_EQ(LiveNcclCommunicators(), 0);
}

void ExpectOneSentence(const absl::Status& status) {
  EXPECT_THAT(std::string(status.message()), AllOf(Not(HasSubstr("\n")), Not(::testing::EndsWith("."))));
}

class NcclRanks : public ::testing::TestWithParam<int> {
 protected:
  static void Check(void (*check)(Communicator&)) {
    RunNcclRanks(GetParam(), [check](Communicator& ranks) {
      const auto communicator = MakeNcclCommunicator(ranks, {});
      ASSERT_EQ(communicator.status(), absl::OkStatus());
      check(**communicator);
      EXPECT_EQ((*communicator)->Check(), absl::OkStatus());
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, NcclRanks, ::testing::Values(1, 2, 3));

// Outside a Work: each call returns when its collective has ended.
TEST_P(NcclRanks, AllGather) { Check(CheckAllGather); }
TEST_P(NcclRanks, ReduceScatter) { Check(CheckReduceScatter); }
TEST_P(NcclRanks, ReduceScatterAccumulates) { Check(CheckReduceScatterAccumulates); }
TEST_P(NcclRanks, ReduceScatterInPlace) { Check(CheckReduceScatterInPlace); }
TEST_P(NcclRanks, AllReduce) { Check(CheckAllReduce); }
TEST_P(NcclRanks, Broadcast) { Check(CheckBroadcast); }
TEST_P(NcclRanks, Barrier) { Check(CheckBarrier); }

TEST(NcclCommunicator, KnowsWhereItIsAndWhatItTook) {
  RunNcclRanks(2, [](Communicator& ranks) {
    const auto communicator = MakeNcclCommunicator(ranks, {});
    ASSERT_EQ(communicator.status(), absl::OkStatus());
    EXPECT_EQ((*communicator)->rank(), ranks.rank());
    EXPECT_EQ((*communicator)->size(), 2);
    EXPECT_EQ((*communicator)->local_rank(), ranks.local_rank());
    EXPECT_EQ((*communicator)->hosts(), ranks.hosts());
    // The twin takes a MiB for each of two communicators.
    EXPECT_GE((*communicator)->overhead_bytes(), ranks.overhead_bytes() + (2 << 20));
    EXPECT_LE((*communicator)->overhead_bytes(), ranks.overhead_bytes() + (2 << 20) + 4096);
  });
}

// --- Inside a step --------------------------------------------------------------------------------------------------

// A device, its communicator, and the step that both are used in.
struct Rank {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<NcclCommunicator> communicator;

  ~Rank() {
    if (device != nullptr) device->SetMonitor(nullptr);
  }
};

absl::Status MakeRank(Communicator& ranks, double deadline_seconds, Rank* rank) {
  ASSIGN_OR_RETURN(rank->device, MakeCudaDevice({.device = ranks.local_rank(), .arena_bytes = 1 << 20}));
  ASSIGN_OR_RETURN(rank->communicator, MakeNcclCommunicator(ranks, {.deadline_seconds = deadline_seconds}));
  rank->device->SetMonitor([communicator = rank->communicator.get()] { return communicator->Check(); });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> GatherAndReduceRounds(Communicator& ranks, int rounds) {
  Rank rank;
  RETURN_IF_ERROR(MakeRank(ranks, 60, &rank));
  return GatherAndReduce(*rank.communicator, *rank.device, rounds);
}

TEST(NcclCommunicator, StreamsOrderWhatIsGatheredAndSummed) {
  for (const int size : {1, 2, 3}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      ResetRuntime({.seed = 100 * seed, .devices = size});
      RunRanks(size, [&](Communicator& ranks) {
        const auto sum = GatherAndReduceRounds(ranks, 1);
        ASSERT_EQ(sum.status(), absl::OkStatus());
        for (int i = 0; i < kStepShard; ++i) {
          EXPECT_EQ((*sum)[static_cast<size_t>(i)], static_cast<float>(size * (100 * ranks.rank() + i)));
        }
      });
      EXPECT_EQ(LiveObjects(), 0);
    }
  }
}

// More than are kept account of: the issuing thread waits for room.
TEST(NcclCommunicator, ThousandsInAStep) {
  RunNcclRanks(2, [&](Communicator& ranks) {
    const auto sum = GatherAndReduceRounds(ranks, 700);
    ASSERT_EQ(sum.status(), absl::OkStatus());
    // What is added up comes into this rank's own part of the whole, which the next round gathers: it doubles.
    EXPECT_EQ((*sum)[1], std::numeric_limits<float>::infinity());
  });
}

TEST(NcclCommunicator, APeerThatDoesNotComeIsSaidAtTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  RunNcclRanks(2, [](Communicator& ranks) {
    Rank rank;
    ASSERT_EQ(MakeRank(ranks, 0.3, &rank), absl::OkStatus());
    std::vector<std::byte> whole(512);
    Completion done;
    const Work work = CollectiveWork(&done, [&](Completion* d) {
      rank.communicator->AllGather(Sequence::kGather, {"h.7", whole.data(), 128}, d);
    });
    rank.device->Enqueue(Stream::kGather, &work);
    if (ranks.rank() == 0) rank.device->Enqueue(Stream::kGather, &work);
    const absl::Status status = rank.device->Synchronize();
    if (ranks.rank() == 1) {
      EXPECT_EQ(status, absl::OkStatus());
      EXPECT_EQ(Barrier(ranks), absl::OkStatus());
      return;
    }
    EXPECT_EQ(Barrier(ranks), absl::OkStatus());
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 0: all-gather of 'h.7' (128 bytes a rank), number 1 of the gather sequence"),
                      HasSubstr("has not ended within 0.3 s"), HasSubstr("--deadline")));
    ExpectOneSentence(status);
    // It stays failed, in both sequences, and says why.
    Completion later;
    rank.communicator->Barrier(Sequence::kReduce, &later);
    EXPECT_EQ(later.Wait(), status);
    EXPECT_EQ(rank.communicator->Check(), status);
  });
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(passed.count(), 0.3);
  EXPECT_LT(passed.count(), 50);
}

TEST(NcclCommunicator, AnErrorThatComesLaterNamesItsCollective) {
  constexpr int kWarmUps = 8;
  RunNcclRanks(2, [](Communicator& ranks) {
    ResetNccl({.failing_collective = ranks.rank() == 1 ? kWarmUps + 1 : -1});
    Rank rank;
    ASSERT_EQ(MakeRank(ranks, 60, &rank), absl::OkStatus());
    std::vector<std::byte> whole(512);
    Completion done;
    const Work work = CollectiveWork(&done, [&](Completion* d) {
      rank.communicator->AllGather(Sequence::kGather, {"h.7", whole.data(), 128}, d);
    });
    for (int i = 0; i < 3; ++i) rank.device->Enqueue(Stream::kGather, &work);
    const absl::Status status = rank.device->Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(absl::StrCat("rank ", ranks.rank(), ": all-gather of 'h.7' (128 bytes a rank), number ")),
              HasSubstr("of the gather sequence failed: remote process exited or there was a network error"),
              HasSubstr("NCCL_DEBUG=INFO")));
    EXPECT_THAT(std::string(status.message()), HasSubstr(ranks.rank() == 1 ? "number 1 " : "number"));
    ExpectOneSentence(status);
    // The device itself is as good as before.
    EXPECT_EQ(rank.device->Synchronize(), absl::OkStatus());
  });
}

TEST(NcclCommunicator, RanksWhoseCallsDifferEndWithAnError) {
  RunNcclRanks(2, [](Communicator& ranks) {
    const auto communicator = MakeNcclCommunicator(ranks, {.deadline_seconds = 30});
    ASSERT_EQ(communicator.status(), absl::OkStatus());
    std::vector<std::byte> whole(2048);
    Completion done;
    (*communicator)->AllGather(Sequence::kGather, {"h.7", whole.data(), ranks.rank() == 0 ? 128 : 256}, &done);
    EXPECT_EQ(done.Wait().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(done.Wait().message()), HasSubstr("all-gather of 'h.7'"));
  });
}

TEST(NcclCommunicator, EndsAtOnceWithACollectiveUnderWay) {
  const auto begin = std::chrono::steady_clock::now();
  RunNcclRanks(2, [](Communicator& ranks) {
    Rank rank;
    ASSERT_EQ(MakeRank(ranks, 300, &rank), absl::OkStatus());
    Completion done;
    const Work work = CollectiveWork(&done, [&](Completion* d) { rank.communicator->Barrier(Sequence::kGather, d); });
    if (ranks.rank() == 0) rank.device->Enqueue(Stream::kGather, &work);
    EXPECT_EQ(Barrier(ranks), absl::OkStatus());
    rank.device->SetMonitor(nullptr);
    rank.communicator.reset();
    EXPECT_EQ(rank.device->Synchronize(), absl::OkStatus());  // its stream is free again
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100));
}

// --- What goes wrong at its creation --------------------------------------------------------------------------------

TEST(NcclCommunicator, TooOldAVersionIsToldToEveryRank) {
  RunNcclRanks(3, [](Communicator& ranks) {
    ResetNccl({.version = ranks.rank() == 1 ? 21805 : 22200});
    const absl::Status status = MakeNcclCommunicator(ranks, {}).status();
    EXPECT_EQ(status, absl::InvalidArgumentError("NCCL 2.18.5 is too old: install libnccl2 of version 2.22 or later"));
  });
}

TEST(NcclCommunicator, RanksThatDoNotMeetAreSaidAtTheDeadline) {
  RunNcclRanks(2, [](Communicator& ranks) {
    ResetNccl({.never_opens = ranks.rank() == 1});
    const absl::Status status = MakeNcclCommunicator(ranks, {.deadline_seconds = 0.2}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1: NCCL's communicator of the gather sequence was not ready within 0.2 s"),
                      HasSubstr("--deadline")));
    ExpectOneSentence(status);
  });
}

// --- Each call fails in turn ----------------------------------------------------------------------------------------

// All five collectives in a step, then the end.
absl::Status UseAll(Communicator& ranks) {
  std::vector<float> whole(static_cast<size_t>(ranks.size()) * 32, 1.0F);
  std::vector<float> sum(32);
  double number = 1;
  Rank rank;  // ends before its buffers: after an error its streams may not have ended
  RETURN_IF_ERROR(MakeRank(ranks, 60, &rank));
  NcclCommunicator& communicator = *rank.communicator;
  auto* bytes = reinterpret_cast<std::byte*>(whole.data());
  Completion done[5];
  const Work works[] = {
      CollectiveWork(&done[0],
                     [&](Completion* d) {
                       communicator.AllGather(Sequence::kGather, {"a", bytes, 128}, d);
                     }),
      CollectiveWork(&done[1],
                     [&](Completion* d) {
                       communicator.ReduceScatter(Sequence::kGather, {"b", whole.data(), sum.data(), 32, true}, d);
                     }),
      CollectiveWork(
          &done[2],
          [&](Completion* d) { communicator.AllReduce(Sequence::kGather, "c", absl::MakeSpan(&number, 1), d); }),
      CollectiveWork(
          &done[3],
          [&](Completion* d) { communicator.Broadcast(Sequence::kGather, "d", absl::MakeSpan(bytes, 128), 0, d); }),
      CollectiveWork(&done[4], [&](Completion* d) { communicator.Barrier(Sequence::kGather, d); }),
  };
  for (const Work& work : works) rank.device->Enqueue(Stream::kGather, &work);
  const absl::Status status = rank.device->Synchronize();
  if (!status.ok()) return status;
  EXPECT_EQ(sum[31], static_cast<float>(ranks.size()));
  EXPECT_EQ(number, ranks.size());
  return status;
}

TEST(NcclCommunicator, EveryCallOfNcclMayFail) {
  int64_t calls = 0;
  RunNcclRanks(2, [&](Communicator& ranks) {
    ResetNccl({});
    EXPECT_EQ(UseAll(ranks), absl::OkStatus());
    if (ranks.rank() == 0) calls = NcclCalls();
  });
  ASSERT_GE(calls, 1 + 2 + 2 + 8 + 5 + 4);
  for (int64_t call = 0; call < calls; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    RunNcclRanks(2, [&](Communicator& ranks) {
      ResetNccl({.failing_call = ranks.rank() == 0 ? call : -1});
      const absl::Status status = UseAll(ranks);
      // The four of the end have nobody to tell: a communicator that does not end well is given up.
      if (call >= calls - 4) return;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      ExpectOneSentence(status);
      if (ranks.rank() == 0) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("unhandled system error (of the twin)"));
      }
    });
  }
}

// On one of two ranks, so that the other one must find out.
TEST(NcclCommunicator, EveryCallOfCudaMayFail) {
  int64_t calls = 0;
  RunNcclRanks(2, [&](Communicator& ranks) {
    ResetNccl({});
    EXPECT_EQ(UseAll(ranks), absl::OkStatus());
    if (ranks.rank() == 0) calls = RuntimeCalls();
  });
  std::atomic<int> failed = 0;
  for (int64_t call = 0; call<calls; call += call> 40 && call < calls - 200 ? 7 : 1) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    ResetRuntime({.seed = 5, .devices = 2});
    RunRanksThatEnd(2, [&](Communicator& ranks) {
      ResetNccl({});
      if (ranks.rank() == 0) FailCall(call);
      const absl::Status status = UseAll(ranks);
      if (status.ok()) return;  // how often streams are asked depends on the order, and the end has nobody to tell
      ++failed;
      ExpectOneSentence(status);
    });
    EXPECT_EQ(LiveObjects(), 0);
    EXPECT_EQ(LiveNcclCommunicators(), 0);
  }
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace reprise::testing
