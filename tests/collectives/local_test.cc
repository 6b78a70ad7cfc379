// The `local` backend: what all backends do, and what it says where ranks do not fit together.
#include <chrono>
#include <vector>

#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/collective_checks.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LocalRanks : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Sizes, LocalRanks, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(LocalRanks, AllGather) { RunRanks(GetParam(), CheckAllGather); }
TEST_P(LocalRanks, ReduceScatter) { RunRanks(GetParam(), CheckReduceScatter); }
TEST_P(LocalRanks, ReduceScatterAccumulates) { RunRanks(GetParam(), CheckReduceScatterAccumulates); }
TEST_P(LocalRanks, ReduceScatterInPlace) { RunRanks(GetParam(), CheckReduceScatterInPlace); }
TEST_P(LocalRanks, AllReduce) { RunRanks(GetParam(), CheckAllReduce); }
TEST_P(LocalRanks, Broadcast) { RunRanks(GetParam(), CheckBroadcast); }
TEST_P(LocalRanks, Barrier) { RunRanks(GetParam(), CheckBarrier); }
TEST_P(LocalRanks, ManyInFlight) { RunRanks(GetParam(), CheckManyInFlight); }
TEST_P(LocalRanks, OppositeOrders) { RunRanks(GetParam(), CheckOppositeOrders); }
TEST_P(LocalRanks, Texts) { RunRanks(GetParam(), CheckTexts); }
TEST_P(LocalRanks, Agree) { RunRanks(GetParam(), CheckAgree); }

TEST(RoughValues, AnotherOrderGivesOtherBits) {
  int different = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const float a = RoughValue(0, i);
    const float b = RoughValue(1, i);
    const float c = RoughValue(2, i);
    different += (a + b) + c != a + (b + c);
  }
  EXPECT_GT(different, 100);
}

TEST(LocalCommunicator, KnowsWhereItIs) {
  RunRanks(3, [](Communicator& communicator) {
    EXPECT_EQ(communicator.size(), 3);
    EXPECT_EQ(communicator.local_size(), 3);
    EXPECT_EQ(communicator.local_rank(), communicator.rank());
    EXPECT_EQ(communicator.hosts().size(), 1U);
    EXPECT_GT(communicator.overhead_bytes(), 0);
  });
}

TEST(LocalCommunicator, SumsOfThreeRanksByHand) {
  // In float32 (1e8 + -1e8) + 1 = 1, while 1e8 + (-1e8 + 1) = 0.
  RunRanks(3, [](Communicator& communicator) {
    const float mine[] = {1e8F, -1e8F, 1.0F};
    const std::vector<float> whole(3, mine[communicator.rank()]);
    float shard = 10.0F;
    Completion done;
    communicator.ReduceScatter(Sequence::kReduce, {"by hand", whole.data(), &shard, 1, true}, &done);
    EXPECT_EQ(done.Wait(), absl::OkStatus());
    EXPECT_EQ(shard, 11.0F);
  });
}

TEST(LocalCommunicator, DifferentKindsNameBoth) {
  RunRanks(3, [](Communicator& communicator) {
    EXPECT_EQ(Barrier(communicator), absl::OkStatus());
    std::vector<float> whole(96);
    Completion done;
    if (communicator.rank() == 1) {
      communicator.ReduceScatter(Sequence::kGather, {"h.4", whole.data(), whole.data(), 32, false}, &done);
    } else {
      communicator.AllGather(Sequence::kGather, {"h.3", reinterpret_cast<std::byte*>(whole.data()), 128}, &done);
    }
    const absl::Status status = done.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 1 reduce-scatter of 'h.4' (128 bytes a rank)"),
                                                     HasSubstr("all-gather of 'h.3' (128 bytes a rank)"),
                                                     HasSubstr("number 1 of the gather sequence")));
    // It stays failed, in both sequences.
    Completion later;
    communicator.Barrier(Sequence::kReduce, &later);
    EXPECT_EQ(later.Wait(), status);
  });
}

TEST(LocalCommunicator, DifferentSizesNameBoth) {
  RunRanks(2, [](Communicator& communicator) {
    std::vector<double> values(communicator.rank() == 0 ? 2 : 3);
    const absl::Status status = AllReduce(communicator, "norm", absl::MakeSpan(values));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 0 all-reduce of 'norm' (16 bytes)"),
                                                     HasSubstr("rank 1 all-reduce of 'norm' (24 bytes)")));
  });
}

TEST(LocalCommunicator, DifferentLabelsAndRootsNameBoth) {
  RunRanks(2, [](Communicator& communicator) {
    double value = 1;
    const char* label = communicator.rank() == 0 ? "loss" : "norm";
    const absl::Status status = AllReduce(communicator, label, absl::MakeSpan(&value, 1));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'loss'"), HasSubstr("'norm'")));
  });
  RunRanks(2, [](Communicator& communicator) {
    std::byte value{};
    const absl::Status status = Broadcast(communicator, "plan", absl::MakeSpan(&value, 1), communicator.rank());
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("from rank 0"), HasSubstr("from rank 1")));
  });
}

TEST(LocalCommunicator, ARankThatNeverComesIsNamedAtTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  RunRanks(
      4,
      [](Communicator& communicator) {
        EXPECT_EQ(Barrier(communicator), absl::OkStatus());
        if (communicator.rank() == 2 || communicator.rank() == 3) return;
        std::vector<std::byte> whole(512);
        Completion done;
        communicator.AllGather(Sequence::kGather, {"h.7", whole.data(), 128}, &done);
        const absl::Status status = done.Wait();
        EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr("all-gather of 'h.7'"), HasSubstr("number 1 of the gather sequence"),
                          HasSubstr("ranks 2 and 3"), HasSubstr("0.3 s")));
      },
      0.3);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(passed.count(), 0.3);
}

TEST(LocalCommunicator, ARankThatEndedFailsTheOthersAtOnce) {
  auto communicators = MakeLocalCommunicators(2, {});  // 300 s: only the news can end the wait
  Completion early;
  communicators[0]->Barrier(Sequence::kGather, &early);
  communicators[1].reset();
  EXPECT_EQ(early.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(early.Wait().message()), HasSubstr("rank 1 has ended"));
  EXPECT_EQ(Barrier(*communicators[0]).code(), absl::StatusCode::kUnavailable);
}

TEST(LocalCommunicator, TooManyInFlightIsAnError) {
  auto communicators = MakeLocalCommunicators(2, {});
  const auto done = std::make_unique<Completion[]>(1000);
  for (int i = 0; i < 1000; ++i) communicators[0]->Barrier(Sequence::kReduce, &done[static_cast<size_t>(i)]);
  EXPECT_EQ(done[0].Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(done[999].Wait().message()), HasSubstr("in flight"));
}

TEST(LocalCommunicatorDeathTest, AbortEndsTheProcessInSilence) {
  EXPECT_EXIT(MakeLocalCommunicators(2, {})[1]->Abort(6), ::testing::ExitedWithCode(6), "^$");
}

TEST(LocalCommunicatorDeathTest, RootOutsideTheRanks) {
  EXPECT_DEATH(
      {
        auto communicators = MakeLocalCommunicators(1, {});
        Broadcast(*communicators[0], "x", {}, 1).IgnoreError();
      },
      "broadcast of 'x' from rank 1");
}

}  // namespace
}  // namespace reprise::testing
