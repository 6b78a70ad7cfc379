// Communicators made of those of a program that has initialised MPI itself: parts of it, one after the other and two at
// once, while the program goes on with messages of its own.
#include <array>
#include <memory>

#include "collectives/mpi_communicator.h"
#include "gtest/gtest.h"
#include "tests/tools/collective_checks.h"

namespace reprise::testing {
namespace {

int WorldRank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int WorldSize() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Even and odd ranks, each with the highest first.
MPI_Comm EveryOther() {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, WorldRank() % 2, -WorldRank(), &part);
  return part;
}

std::unique_ptr<Communicator> Make(MPI_Comm parent) {
  auto communicator = MakeMpiCommunicator(parent, {.deadline_seconds = 60});
  EXPECT_TRUE(communicator.ok()) << communicator.status();
  return communicator.ok() ? *std::move(communicator) : nullptr;
}

TEST(AdoptedMpi, RanksAreThoseOfTheParent) {
  MPI_Comm part = EveryOther();
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(part, &rank);
  MPI_Comm_size(part, &size);
  const auto communicator = Make(part);
  MPI_Comm_free(&part);  // it was duplicated
  ASSERT_NE(communicator, nullptr);
  EXPECT_EQ(communicator->rank(), rank);
  EXPECT_EQ(communicator->size(), size);
  CheckAllGather(*communicator);
  CheckReduceScatter(*communicator);
  CheckBroadcast(*communicator);
}

TEST(AdoptedMpi, OneAfterTheOther) {
  for (int i = 0; i < 3; ++i) {
    const auto communicator = Make(MPI_COMM_WORLD);
    ASSERT_NE(communicator, nullptr);
    EXPECT_EQ(communicator->rank(), WorldRank());
    CheckAllReduce(*communicator);
  }
  int finalised = 0;
  MPI_Finalized(&finalised);
  EXPECT_EQ(finalised, 0);
}

TEST(AdoptedMpi, TwoAtOnceAndTheProgramsOwnMessages) {
  MPI_Comm part = EveryOther();
  const auto all = Make(MPI_COMM_WORLD);
  const auto some = Make(part);
  ASSERT_NE(all, nullptr);
  ASSERT_NE(some, nullptr);
  for (int i = 0; i < 20; ++i) {
    std::array<double, 2> values = {1, static_cast<double>(WorldRank())};
    Completion done;
    all->AllReduce(Sequence::kReduce, "values", absl::MakeSpan(values), &done);
    int sum = WorldRank();
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, WorldSize() * (WorldSize() - 1) / 2);
    CheckAllReduce(*some);
    ASSERT_EQ(done.Wait(), absl::OkStatus());
    EXPECT_EQ(values[0], WorldSize());
    EXPECT_EQ(values[1], sum);
  }
  MPI_Comm_free(&part);
}

TEST(AdoptedMpi, WhatCannotBeAdopted) {
  EXPECT_EQ(MakeMpiCommunicator(MPI_COMM_NULL, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeMpiCommunicator(MPI_COMM_WORLD, {.deadline_seconds = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  // The form that initialises MPI itself.
  EXPECT_EQ(MakeMpiCommunicator({}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise::testing

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
