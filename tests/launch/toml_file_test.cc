#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launch/configuration.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TomlFile : public ::testing::Test {
 protected:
  absl::StatusOr<TrainConfiguration> Read(const std::string& text, const std::vector<std::string>& more = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    std::vector<std::string> arguments = {absl::StrCat("--config=", path_)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Resolve(Subcommand::kTrain, arguments);
  }

  std::string Refusal(const std::string& text) {
    const absl::StatusOr<TrainConfiguration> configuration = Read(text);
    if (configuration.ok()) return "accepted";
    EXPECT_EQ(configuration.status().code(), absl::StatusCode::kInvalidArgument) << configuration.status();
    return std::string(configuration.status().message());
  }

  testing::TemporaryFolder folder_;
  std::string path_ = folder_.File("run.toml");
};

TEST_F(TomlFile, SetsEveryKindOfFlag) {
  const absl::StatusOr<TrainConfiguration> configuration = Read(
      "# a run\ndata = \"text.txt\"\nsteps = 300\nlearning_rate = 2e-3\nclip_norm = 1\nmemory_budget = \"1.5GiB\"\n"
      "host_budget = 4096\noffload = [\"activations\"]\ncheckpoint = \"every:2\"\n");
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->data, "text.txt");
  EXPECT_EQ(configuration->steps, 300);
  EXPECT_EQ(configuration->learning_rate, 2e-3);
  EXPECT_EQ(configuration->clip_norm, 1);
  EXPECT_EQ(configuration->memory_budget.bytes, 1610612736);
  EXPECT_EQ(configuration->host_budget.bytes, 4096);
  EXPECT_THAT(configuration->offload, ElementsAre("activations"));
  EXPECT_EQ(configuration->checkpoint_every, 2);
}

TEST_F(TomlFile, LosesToTheCommandLine) {
  const absl::StatusOr<TrainConfiguration> configuration =
      Read("data = \"a\"\nsteps = 300\nseed = 5\n", {"--steps=20", "--data", "b"});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->steps, 20);
  EXPECT_EQ(configuration->data, "b");
  EXPECT_EQ(configuration->seed, 5);
}

TEST_F(TomlFile, GivesBackWhatWasWritten) {
  const absl::StatusOr<TrainConfiguration> first =
      Resolve(Subcommand::kTrain,
              std::vector<std::string>{"--data=a \"b\"\\\n\x7f\xC3\xA9", "--epochs=2", "--dropout=0.1",
                                       "--learning_rate=0.30000000000000004", "--epsilon=1e-37", "--checkpoint=every:3",
                                       "--offload=activations", "--memory_budget=1GiB", "--stream_order=random:9"});
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<TrainConfiguration> second = Read(ToToml(*first));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(ToToml(*first), ToToml(*second));
}

TEST_F(TomlFile, NamesFileLineAndKey) {
  const std::string head = "data = \"x\"\n\n";
  const std::string place = absl::StrCat(path_, ":3: ");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"stpes = 3", "unknown key 'stpes'; did you mean 'steps'?"},
      {"config = \"x\"", "config cannot stand in a configuration file itself"},
      {"[optimizer]\nbeta1 = 0.9", "optimizer wants a string, not a table"},
      {"steps = \"3\"", "steps wants an integer, not a string"},
      {"steps = 3.0", "steps wants an integer, not a float"},
      {"steps = true", "steps wants an integer, not a boolean"},
      {"steps = 1979-05-27", "steps wants an integer, not a date or time"},
      {"learning_rate = \"1e-3\"", "learning_rate wants a number, not a string"},
      {"metrics = 3", "metrics wants a string, not an integer"},
      {"offload = [1]", "offload wants a list of words, not an array"},
      {"offload = [\"activations,optimizer\"]", "offload wants a list of words, not an array"},
      {"memory_budget = 1.5", "memory_budget wants a size such as 512MiB, not a float"},
      {"memory_budget = \"12GB\"", "memory_budget wants a size such as 512MiB, not '12GB'"},
      {"memory_budget = -1", "memory_budget wants a size such as 512MiB, not '-1'"},
      {"steps = ", "not TOML"},
      {"steps = 3\nsteps = 4", "not TOML"},
      {"\xff\xfe", "not TOML"},
  };
  for (const auto& [line, message] : cases) {
    const std::string refusal = Refusal(head + line + "\n");
    EXPECT_THAT(refusal, HasSubstr(message)) << line;
    if (message != "not TOML") {
      EXPECT_THAT(refusal, HasSubstr(place)) << line;
    }
    EXPECT_THAT(refusal, HasSubstr(path_)) << line;
  }
}

TEST_F(TomlFile, ValuesAreCheckedAsOnTheCommandLine) {
  const std::string head = "data = \"x\"\nsteps = 3\n";
  EXPECT_THAT(Refusal(head + "learning_rate = nan\n"), HasSubstr("--learning_rate must be a finite number"));
  EXPECT_THAT(Refusal(head + "accumulation = 0\n"), HasSubstr("--accumulation must be from 1"));
  EXPECT_THAT(Refusal(head + "replicas = 2\n"), HasSubstr("--replicas above 1 is not built yet"));
  EXPECT_THAT(Refusal(head + "metrics = \"a\\u0000b\"\n"), HasSubstr("metrics holds a zero byte"));
}

TEST_F(TomlFile, RefusesFilesThatAreNone) {
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, ' ')), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(Refusal(std::string(1 << 19, '[')), HasSubstr("not TOML"));
  for (const std::string& path : {folder_.path(), folder_.File("absent.toml"), std::string("/dev/zero")}) {
    const absl::StatusOr<TrainConfiguration> configuration =
        Resolve(Subcommand::kTrain, std::vector<std::string>{absl::StrCat("--config=", path)});
    EXPECT_EQ(configuration.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(configuration.status().message()), HasSubstr(path));
  }
}

}  // namespace
}  // namespace reprise
