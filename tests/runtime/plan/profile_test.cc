#include "runtime/plan/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise {
namespace {

using ::testing::HasSubstr;

OptionProfile Option(Keep keep, int32_t set = -1) {
  OptionProfile option;
  option.keep = keep;
  option.set = set;
  return option;
}

Profile TwoLayers() {
  Profile profile;
  profile.blocks.resize(4);
  for (const size_t i : {1U, 2U}) {
    profile.blocks[i].name = i == 1 ? "h.0" : "h.1";
    profile.blocks[i].options = {Option(Keep::kEverything), Option(Keep::kSet, 0), Option(Keep::kBoundary)};
  }
  return profile;
}

void ExpectRefused(const Profile& profile, const std::string& words) {
  const absl::Status status = CheckProfile(profile);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(CheckProfileTest, TakesWhatIsWellFormed) {
  EXPECT_TRUE(CheckProfile(TwoLayers()).ok());
  Profile no_layers;
  no_layers.blocks.resize(2);
  EXPECT_TRUE(CheckProfile(no_layers).ok());
}

TEST(CheckProfileTest, WantsAFirstAndALastBlock) {
  Profile profile;
  profile.blocks.resize(1);
  ExpectRefused(profile, "1 blocks");
}

TEST(CheckProfileTest, NamesTheNegativeField) {
  Profile profile = TwoLayers();
  profile.blocks[2].gather_ns = -5;
  ExpectRefused(profile, "block 2 (h.1): gather_ns is -5");
  profile = TwoLayers();
  profile.blocks[1].options[1].kept_bytes = -1;
  ExpectRefused(profile, "block 1 (h.0), option 1: kept_bytes is -1");
  profile = TwoLayers();
  profile.state_bytes = -1;
  ExpectRefused(profile, "state_bytes");
  profile = TwoLayers();
  profile.interference_millionths[static_cast<size_t>(Stream::kReload)] = -1;
  ExpectRefused(profile, "reload");
  profile = TwoLayers();
  profile.accumulation = 0;
  ExpectRefused(profile, "accumulation is 0");
}

TEST(CheckProfileTest, WantsEverythingFirstAndBoundaryLast) {
  Profile profile = TwoLayers();
  profile.blocks[1].options.clear();
  ExpectRefused(profile, "block 1 (h.0)");
  profile = TwoLayers();
  std::swap(profile.blocks[2].options[0], profile.blocks[2].options[2]);
  ExpectRefused(profile, "block 2 (h.1)");
  profile = TwoLayers();
  profile.blocks[2].options[1].keep = Keep::kBoundary;
  ExpectRefused(profile, "option 1");
  profile = TwoLayers();
  profile.blocks[2].options.insert(profile.blocks[2].options.begin() + 1, Option(Keep::kSet, 0));
  ExpectRefused(profile, "set is 0");
}

TEST(CheckProfileTest, RefusesWhatCouldOverflow) {
  Profile profile = TwoLayers();
  profile.blocks[1].forward_ns = int64_t{1} << 60;
  profile.blocks[2].forward_ns = int64_t{1} << 60;
  ExpectRefused(profile, "times are too large");
  profile = TwoLayers();
  profile.blocks[1].forward_ns = int64_t{1} << 40;
  profile.accumulation = int64_t{1} << 40;
  ExpectRefused(profile, "times are too large");
  profile = TwoLayers();
  profile.blocks[1].gather_ns = int64_t{1} << 40;
  profile.interference_millionths[static_cast<size_t>(Stream::kGather)] = INT64_MAX;
  ExpectRefused(profile, "times are too large");
  profile = TwoLayers();
  for (BlockProfile& block : profile.blocks) block.whole_bytes = INT64_MAX;
  ExpectRefused(profile, "sizes are too large");
}

}  // namespace
}  // namespace reprise
