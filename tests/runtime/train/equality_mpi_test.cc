// Training over the `mpi` communicator gives the bits of `local` ranks, on twelve cells of the equality matrix.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tests/tools/equality.h"
#include "tests/tools/mpi_main.h"

namespace reprise::testing {
namespace {

std::vector<EqualityCell> Cells() {
  constexpr DType kFloat = DType::kFloat32;
  constexpr DType kBrain = DType::kBFloat16;
  return {
      {"none", false, Sharding::kFull, kFloat, 0},        {"all", true, Sharding::kFull, kFloat, 0.1},
      {"every:2", true, Sharding::kFull, kBrain, 0.1},    {"every:3", false, Sharding::kFull, kBrain, 0},
      {"sqrt", true, Sharding::kGradients, kFloat, 0.1},  {"all", false, Sharding::kGradients, kBrain, 0},
      {"none", false, Sharding::kGradients, kFloat, 0},   {"every:2", true, Sharding::kOptimizer, kFloat, 0},
      {"sqrt", false, Sharding::kOptimizer, kBrain, 0.1}, {"all", true, Sharding::kNone, kBrain, 0},
      {"every:3", true, Sharding::kNone, kFloat, 0.1},    {"none", false, Sharding::kNone, kBrain, 0.1},
  };
}

class MpiEqualityTest : public ::testing::TestWithParam<int> {};

TEST_P(MpiEqualityTest, SameBitsAsLocal) {
  const int index = GetParam();
  EqualityCell cell = Cells()[static_cast<size_t>(index)];
  cell.ranks = MpiWorld().size();
  cell.accumulation = index % 3 == 1 ? 2 : 1;
  SCOPED_TRACE(cell.Name());
  // A rank that fails has an outcome of nothing, which differs: all ranks go on to the broadcast.
  const auto outcome = RunCell(cell, {}, MpiWorld());
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  const CellOutcome here = outcome.ok() ? *outcome : CellOutcome{};
  ExpectCounts(cell, {here});

  std::vector<uint64_t> expected(static_cast<size_t>(cell.ranks));
  if (MpiWorld().rank() == 0) {
    const std::vector<CellOutcome> local = RunOnLocalRanks(cell);
    EXPECT_EQ(FirstDifference(here, local[0]), "");
    for (size_t rank = 0; rank < expected.size(); ++rank) expected[rank] = HashOf(local[rank]);
  }
  const absl::Status sent = Broadcast(
      MpiWorld(), "hashes", {reinterpret_cast<std::byte*>(expected.data()), expected.size() * sizeof(uint64_t)}, 0);
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(HashOf(here), expected[static_cast<size_t>(MpiWorld().rank())]);
}

INSTANTIATE_TEST_SUITE_P(Cells, MpiEqualityTest, ::testing::Range(0, 12));

}  // namespace
}  // namespace reprise::testing

int main(int argc, char** argv) { return reprise::testing::RunMpiTests(argc, argv); }
