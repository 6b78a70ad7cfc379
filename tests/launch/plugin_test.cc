// --plugin: models and operations of shared libraries, in train and plan.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kConfiguration = 2, kData = 3;

class Plugin : public SmallJob {
 protected:
  static std::string Path(const std::string& name) {
    return absl::StrCat(REPRISE_BINARY_DIR, "/plugins/", name, ".so");
  }
  std::string PluginFlags(const std::string& plugins, const std::string& more) const {
    return absl::StrCat("--data=", File("text.txt"), " --sequence_length=16 --micro_batch=2 --threads=1 --steps=12 ",
                        "--learning_rate=0.01 --plugin=", plugins, " ", more);
  }
  void Refused(const std::string& command, int code, const std::string& words) const {
    const Outcome outcome = Shell(command);
    EXPECT_EQ(outcome.exit_code, code) << command << "\n" << outcome.errors;
    const std::vector<std::string> lines = ErrorLines(outcome);
    ASSERT_EQ(lines.size(), 1U) << outcome.errors;
    EXPECT_THAT(lines[0], HasSubstr(words));
  }
  std::vector<double> Losses(int ranks, const std::string& flags) const {
    const Outcome outcome = Shell(TrainOn(ranks, absl::StrCat(flags, " --metrics=", File("metrics.jsonl"))));
    EXPECT_EQ(outcome.exit_code, 0) << flags << outcome.errors;
    return MetricsOf(File("metrics.jsonl"), "loss");
  }
};

// The heads start at zero.
TEST_F(Plugin, TrainsItsModel) {
  const std::vector<double> losses = Losses(2, PluginFlags(Path("bigram"), "--model=bigram"));
  ASSERT_EQ(losses.size(), 12U);
  EXPECT_NEAR(losses.front(), std::log(256.0), 1e-6);
  EXPECT_LT(losses.back(), losses.front() - 1);
}

TEST_F(Plugin, TwoOfThemAndAnOperationUnderAnyPolicy) {
  const std::string both = absl::StrCat(Path("bigram"), ",", Path("mixer"));
  const std::vector<double> kept = Losses(2, PluginFlags(both, "--model=mixer --model_config=layers=4"));
  ASSERT_EQ(kept.size(), 12U);
  EXPECT_NEAR(kept.front(), std::log(256.0), 1e-6);
  EXPECT_LT(kept.back(), kept.front() - 1);
  EXPECT_EQ(Losses(2, PluginFlags(both,
                                  "--model=mixer --model_config=layers=4 --checkpoint=every:2 "
                                  "--offload=activations")),
            kept);
}

TEST_F(Plugin, IsPlanned) {
  const Outcome outcome = Shell(absl::StrCat(ProgramPath("reprise"), " plan --plugin=", Path("mixer"),
                                             " --model=mixer --model_config=layers=3 --sequence_length=16 "
                                             "--hardware=h100-sxm --world_size=2 --checkpoint=all"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(Plugin, BadOnesAreRefusedOnceWithTheirExitCode) {
  Refused(TrainOn(2, PluginFlags(Path("missing"), "")), kData, "No such file");
  Refused(TrainOn(2, PluginFlags(File("text.txt"), "")), kData, "is no shared library");
  Refused(TrainOn(2, PluginFlags(Path("other_version"), "")), kData, "build it again");
  Refused(Train(PluginFlags(absl::StrCat(Path("bigram"), ",", Path("second_bigram")), "")), kData, "model bigram");
  Refused(Train(PluginFlags(Path("bigram"), "--model=bigrams")), kConfiguration, "did you mean 'bigram'");
  Refused(Train(PluginFlags(Path("bigram"), "--model=bigram --model_config=widht=3")), kConfiguration, "'width'");
  Refused(TrainOn(2, PluginFlags(Path("no_kernel"), "--model=unmade")), kConfiguration,
          "operation unmade has no cpu kernel");
}

TEST_F(Plugin, DiffersBetweenRanks) {
  const std::string script = File("train.sh");
  // One path, two files: as if the hosts had other copies.
  std::ofstream(script) << "cd " << File("") << "/$OMPI_COMM_WORLD_RANK && exec " << ProgramPath("reprise") << " train "
                        << PluginFlags("./plugin.so", "--model=bigram") << "\n";
  Shell(absl::StrCat("mkdir ", File("0"), " ", File("1"), " && cp ", Path("bigram"), " ", File("0/plugin.so"),
                     " && cp ", Path("mixer"), " ", File("1/plugin.so")));
  Refused(absl::StrCat(kMpirun, " -np 2 bash ", script), kData, "--plugin=./plugin.so differs between ranks");
}

}  // namespace
}  // namespace reprise::testing
