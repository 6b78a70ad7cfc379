// The `mpi` backend on real processes: the same checks as all backends, and the same bits as `local`.
#include <vector>

#include "collectives/communicator.h"
#include "gtest/gtest.h"
#include "tests/tools/collective_checks.h"
#include "tests/tools/mpi_main.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {
namespace {

TEST(MpiCommunicator, KnowsWhereItIs) {
  Communicator& world = MpiWorld();
  EXPECT_GE(world.rank(), 0);
  EXPECT_LT(world.rank(), world.size());
  EXPECT_GE(world.local_rank(), 0);
  EXPECT_LT(world.local_rank(), world.local_size());
  EXPECT_EQ(world.hosts().size(), 1U);
  EXPECT_GT(world.overhead_bytes(), 0);
  EXPECT_LT(world.overhead_bytes(), int64_t{80} << 20);
}

TEST(MpiCommunicator, AllGather) { CheckAllGather(MpiWorld()); }
TEST(MpiCommunicator, ReduceScatter) { CheckReduceScatter(MpiWorld()); }
TEST(MpiCommunicator, ReduceScatterAccumulates) { CheckReduceScatterAccumulates(MpiWorld()); }
TEST(MpiCommunicator, ReduceScatterInPlace) { CheckReduceScatterInPlace(MpiWorld()); }
TEST(MpiCommunicator, AllReduce) { CheckAllReduce(MpiWorld()); }
TEST(MpiCommunicator, Broadcast) { CheckBroadcast(MpiWorld()); }
TEST(MpiCommunicator, Barrier) { CheckBarrier(MpiWorld()); }
TEST(MpiCommunicator, ManyInFlight) { CheckManyInFlight(MpiWorld()); }
TEST(MpiCommunicator, OppositeOrders) { CheckOppositeOrders(MpiWorld()); }
TEST(MpiCommunicator, Texts) { CheckTexts(MpiWorld()); }
TEST(MpiCommunicator, Agree) { CheckAgree(MpiWorld()); }

TEST(MpiCommunicator, SameBitsAsLocal) {
  constexpr int64_t kShard = 100003;
  const std::vector<float> here = ReduceRoughValues(MpiWorld(), kShard);
  std::vector<float> local;
  RunRanks(MpiWorld().size(), [&local](Communicator& communicator) {
    std::vector<float> shard = ReduceRoughValues(communicator, kShard);
    if (communicator.rank() == MpiWorld().rank()) local = std::move(shard);
  });
  EXPECT_EQ(here, local);
}

TEST(MpiCommunicator, ASecondOneIsRefused) {
  const auto second = MakeMpiCommunicator({});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Barrier(MpiWorld()), absl::OkStatus());
}

// 2^31 + 1 bytes a shard would need 4 GiB a rank; a broadcast of as many needs 2 GiB a rank.
TEST(MpiCommunicatorLong, BroadcastOfMoreThanTwoToTheThirtyOneBytes) {
  constexpr int64_t kBytes = (int64_t{1} << 31) + 1;
  const auto value = [](int64_t i) { return static_cast<std::byte>((i * 0x9e3779b97f4a7c15ULL) >> 56); };
  std::vector<std::byte> bytes(kBytes);
  if (MpiWorld().rank() == 0) {
    for (int64_t i = 0; i < kBytes; ++i) bytes[static_cast<size_t>(i)] = value(i);
  }
  ASSERT_EQ(Broadcast(MpiWorld(), "large", absl::MakeSpan(bytes), 0), absl::OkStatus());
  int64_t wrong = 0;
  for (int64_t i = 0; i < kBytes; ++i) wrong += bytes[static_cast<size_t>(i)] != value(i);
  EXPECT_EQ(wrong, 0);
}

// The parts of the later ranks begin beyond 2^31 bytes.
TEST(MpiCommunicatorLong, AllGatherBeyondTwoToTheThirtyOneBytes) {
  const int64_t shard = ((int64_t{1} << 31) + 1) / MpiWorld().size() + 1;
  const auto value = [](int rank, int64_t i) {
    return static_cast<std::byte>(((i + rank * 7919) * 0x9e3779b97f4a7c15ULL) >> 56);
  };
  std::vector<std::byte> whole(static_cast<size_t>(shard * MpiWorld().size()));
  for (int64_t i = 0; i < shard; ++i) {
    whole[static_cast<size_t>(MpiWorld().rank() * shard + i)] = value(MpiWorld().rank(), i);
  }
  Completion done;
  MpiWorld().AllGather(Sequence::kGather, {"large", whole.data(), shard}, &done);
  ASSERT_EQ(done.Wait(), absl::OkStatus());
  int64_t wrong = 0;
  for (int rank = 0; rank < MpiWorld().size(); ++rank) {
    for (int64_t i = 0; i < shard; ++i) wrong += whole[static_cast<size_t>(rank * shard + i)] != value(rank, i);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise::testing

int main(int argc, char** argv) { return reprise::testing::RunMpiTests(argc, argv); }
