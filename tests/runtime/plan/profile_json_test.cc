#include "runtime/plan/profile_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/random_profile.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

std::string Text() { return ProfileToJson(testing::RandomProfile(1, {.smallest_layers = 3, .largest_layers = 3})); }

TEST(ProfileJson, ComesBackEqual) {
  const std::string text = Text();
  const auto again = ProfileFromJson(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ProfileToJson(*again), text);
  // A number that the writer cannot have made up: read by another parser.
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["blocks"][1]["options"][0]["kept_bytes"].get<int64_t>(), again->blocks[1].options[0].kept_bytes);
  EXPECT_EQ(json["blocks"].size(), 5U);
}

TEST(ProfileJson, EveryPrefixIsRefused) {
  const std::string text = Text();
  for (size_t length = 0; length + 2 < text.size(); length += 97) {
    EXPECT_EQ(ProfileFromJson(text.substr(0, length)).status().code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

TEST(ProfileJson, NamesWhatIsWrong) {
  const nlohmann::json good = nlohmann::json::parse(Text());
  const auto refused = [](const nlohmann::json& json) {
    const absl::Status status = ProfileFromJson(json.dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  nlohmann::json bad = good;
  bad["version"] = 1;
  EXPECT_THAT(refused(bad), HasSubstr("version"));
  bad = good;
  bad["first_backward"] = 99;
  EXPECT_THAT(refused(bad), HasSubstr("first_backward is 99"));
  bad = good;
  bad["first_backward"] = 2;  // and layer 1 keeps something for it
  EXPECT_THAT(refused(bad), HasSubstr("it has no backward"));
  bad = good;
  bad["blocks"][2].erase("reload_ns");
  EXPECT_THAT(refused(bad), HasSubstr("profile.blocks[2] lacks \"reload_ns\""));
  bad = good;
  bad["blocks"][2]["reload_n"] = 3;
  EXPECT_THAT(refused(bad), HasSubstr("did you mean 'reload_ns'"));
  bad = good;
  bad["blocks"][1]["options"][0]["keep"] = "all";
  EXPECT_THAT(refused(bad), HasSubstr("profile.blocks[1].options[0].keep"));
  for (const nlohmann::json& value :
       {nlohmann::json("1"), nlohmann::json(1.5), nlohmann::json(-1), nlohmann::json(18446744073709551615ULL)}) {
    bad = good;
    bad["state_bytes"] = value;
    EXPECT_THAT(refused(bad), HasSubstr("state_bytes")) << value;
  }
}

}  // namespace
}  // namespace reprise
