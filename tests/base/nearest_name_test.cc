#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(NearestName, TakesTheFewestEdits) {
  const std::vector<std::string> known = {"seed", "steps", "epochs", "learning_rate", "min_learning_rate"};
  EXPECT_EQ(NearestName("stpes", known), "steps");
  EXPECT_EQ(NearestName("step", known), "steps");
  EXPECT_EQ(NearestName("learning-rate", known), "learning_rate");
  EXPECT_EQ(NearestName("epoch", known), "epochs");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(NearestName("zzzzzz", {"steps", "seed"}), "");
  EXPECT_EQ(NearestName("", {"steps"}), "");
  EXPECT_EQ(NearestName("steps", {}), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 's'), {"steps"}), "");
}

TEST(DidYouMean, EndsASentence) {
  EXPECT_EQ(DidYouMean("stpes", {"steps"}), "; did you mean 'steps'?");
  EXPECT_EQ(DidYouMean("zzzzzz", {"steps"}), "");
}

}  // namespace
}  // namespace reprise
