// Any order of the streams that a schedule's waits allow gives the bits of the streams that run at once; what is given
// back is poisoned, so a use out of its time shows as a number that is none.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/equality.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::ExpectCounts;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::RunOnLocalRanks;

std::string CellName(const ::testing::TestParamInfo<EqualityCell>& info) { return info.param.Name(); }

void ExpectSameBits(const std::vector<CellOutcome>& actual, const std::vector<CellOutcome>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t rank = 0; rank < actual.size(); ++rank) {
    EXPECT_EQ(FirstDifference(actual[rank], expected[rank]), "") << "on rank " << rank;
  }
}

std::vector<EqualityCell> NamedCells() {
  constexpr DType kFloat = DType::kFloat32;
  constexpr DType kBrain = DType::kBFloat16;
  return {
      {"all", true, Sharding::kFull, kFloat, 0.1, 2, 1},
      {"every:2", true, Sharding::kFull, kBrain, 0, 3, 2},
      {"sqrt", true, Sharding::kFull, kFloat, 0, 1, 2},
      {"none", false, Sharding::kFull, kBrain, 0.1, 2, 1},
      {"every:3", true, Sharding::kGradients, kFloat, 0.1, 2, 2},
      {"every:2", false, Sharding::kGradients, kBrain, 0, 3, 1},
      {"all", true, Sharding::kOptimizer, kBrain, 0.1, 2, 2},
      {"sqrt", false, Sharding::kNone, kFloat, 0.1, 3, 1},
  };
}

class StreamOrderEqualityTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(StreamOrderEqualityTest, TwentyOrdersGiveTheBitsOfAsync) {
  const std::vector<CellOutcome> async = RunOnLocalRanks(GetParam());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("random:", seed));
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(GetParam(), {.random = true, .seed = seed});
    ExpectSameBits(outcome, async);
    ExpectCounts(GetParam(), outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(Named, StreamOrderEqualityTest, ::testing::ValuesIn(NamedCells()), CellName);

}  // namespace
}  // namespace reprise
