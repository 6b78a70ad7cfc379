// The program and the scripts as their callers see them: exit codes and the one line of an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string output;
  std::string errors;
};

std::string Contents(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Runs a line of the shell.
Outcome Shell(const std::string& command) {
  const testing::TemporaryFolder folder;
  const std::string line =
      absl::StrCat("{ ", command, "\n} >", folder.File("out"), " 2>", folder.File("err"), " </dev/null");
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Contents(folder.File("out")),
          Contents(folder.File("err"))};
}

Outcome Reprise(const std::string& arguments) {
  return Shell(absl::StrCat(testing::ProgramPath("reprise"), " ", arguments));
}

int ErrorLines(const Outcome& outcome) {
  int count = 0;
  for (const absl::string_view line : absl::StrSplit(outcome.errors, '\n')) {
    if (absl::StartsWith(line, "reprise: ")) ++count;
  }
  return count;
}

TEST(Program, RefusesInOneLine) {
  for (const char* arguments :
       {"", "trian", "--nonsense", "doctor", "report", "train", "train --stpes=3", "train --data=x --steps=0",
        "train --data=x --steps=1 --learning_rate=nan", "train --data=x --steps=1 --export_dtype=fp16",
        "train --config=/absent", "plan --world_size=-1", "train --data=x --steps=1 --sharding=some",
        "train 'two\nlines'"}) {
    const Outcome outcome = Reprise(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(ErrorLines(outcome), 1) << arguments << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, "") << arguments;
  }
  EXPECT_THAT(Reprise("trian").errors, HasSubstr("did you mean 'train'?"));
}

TEST(Program, HelpAndVersion) {
  for (const char* arguments : {"--help", "help", "train --help", "plan --help", "--version", "train --version"}) {
    const Outcome outcome = Reprise(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.output, "") << arguments;
    EXPECT_EQ(outcome.errors, "") << arguments;
  }
  EXPECT_THAT(Reprise("--version").output, StartsWith("reprise 0."));
}

TEST(Program, OneRankSpeaks) {
  const Outcome outcome = Shell(absl::StrCat("mpirun --allow-run-as-root --oversubscribe -np 3 ",
                                             testing::ProgramPath("reprise"), " train --stpes=3"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(ErrorLines(outcome), 1) << outcome.errors;
}

// launch/run with a script in place of reprise.
class LaunchRun : public ::testing::Test {
 protected:
  Outcome WithRanks(const std::string& script, const std::string& prefix = "", const std::string& suffix = "") {
    const std::string path = folder_.File("rank");
    std::ofstream(path) << "#!/bin/bash\nrank=$OMPI_COMM_WORLD_RANK\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return Shell(absl::StrCat("REPRISE_PROGRAM=", path, " ", prefix, " ", REPRISE_SOURCE_DIR,
                              "/launch/run -np 2 train x ", suffix));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(LaunchRun, PassesArgumentsAndEnvironment) {
  const Outcome outcome = WithRanks("echo \"$rank: $* $OMP_WAIT_POLICY $GOMP_SPINCOUNT\"");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("0: train x passive 0"));
  EXPECT_THAT(outcome.output, HasSubstr("1: train x passive 0"));
}

TEST_F(LaunchRun, ExitsWithTheCodeOfTheRanks) {
  EXPECT_EQ(WithRanks("[[ $rank == 1 ]] && exit 3; sleep 100").exit_code, 3);
  EXPECT_EQ(WithRanks("[[ $rank == 1 ]] && kill -9 $$; sleep 100").exit_code, 5);
  EXPECT_EQ(WithRanks("[[ $rank == 1 ]] && { echo 6 >$REPRISE_EXIT_FILE; kill -9 $$; }; sleep 100").exit_code, 6);
}

// Twice at once, as timeout(1) and batch systems do: to the script and to its group.
TEST_F(LaunchRun, LetsRanksSaveAfterASignal) {
  for (const auto& [signal, exit_code] : {std::pair{"TERM", 143}, std::pair{"INT", 130}}) {
    const std::string mark = folder_.File(signal);
    const std::string save = absl::StrCat("end() { sleep 2; touch ", mark,
                                          ".saved.$rank; echo $1 >$REPRISE_EXIT_FILE; exit $1; }\n"
                                          "trap 'end 130' USR1; trap 'end 143' USR2\n"
                                          "touch ",
                                          mark, ".ready.$rank; for i in {1..600}; do sleep 0.1; done");
    // A shell's background jobs ignore SIGINT, and so would theirs.
    const Outcome outcome = WithRanks(save, "env --default-signal=INT",
                                      absl::StrCat("& run=$!; until [ -e ", mark, ".ready.0 ] && [ -e ", mark,
                                                   ".ready.1 ]; do sleep 0.1; done; kill -s ", signal,
                                                   " $run; kill -s ", signal, " $run; wait $run"));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.errors;
    for (const char* rank : {"0", "1"}) {
      EXPECT_TRUE(std::filesystem::exists(absl::StrCat(mark, ".saved.", rank))) << signal << " rank " << rank;
    }
  }
}

TEST_F(LaunchRun, RefusesInOneLine) {
  const std::string run = absl::StrCat("REPRISE_PROGRAM=/bin/true ", REPRISE_SOURCE_DIR, "/launch/run ");
  for (const char* arguments : {"", "train", "-np", "-np x train", "-np 0 train", "-np 2"}) {
    const Outcome outcome = Shell(absl::StrCat(run, arguments));
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(ErrorLines(outcome), 1) << arguments << outcome.errors;
  }
  EXPECT_EQ(ErrorLines(Shell(absl::StrCat("REPRISE_PROGRAM=/absent ", REPRISE_SOURCE_DIR, "/launch/run -np 1 train"))),
            1);
}

TEST(LaunchSetup, RefusesUnknownOptions) {
  const std::string setup = absl::StrCat(REPRISE_SOURCE_DIR, "/launch/setup ");
  for (const char* arguments : {"--nonsense", "--preset", "--target"}) {
    const Outcome outcome = Shell(absl::StrCat(setup, arguments));
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(ErrorLines(outcome), 1) << outcome.errors;
  }
}

}  // namespace
}  // namespace reprise
