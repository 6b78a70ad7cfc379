// A rank that is killed, that stops, or whose data goes: all ranks end soon, with a code and a reason.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Without the news, ranks would wait for the default deadline of 300 s.
constexpr double kSoon = 60;

class FailingRank : public SmallJob {
 protected:
  // Process numbers of the ranks of this test's job: reprise, with this test's folder among its arguments.
  std::vector<pid_t> Ranks(const std::string& rank = "") const {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      const std::string command = Contents(entry.path() / "cmdline");
      if (!absl::StartsWith(command, ProgramPath("reprise")) || !absl::StrContains(command, folder_.path())) continue;
      const std::string environment = absl::StrCat(Contents(entry.path() / "environ"), std::string(1, '\0'));
      const std::string mark = absl::StrCat("OMPI_COMM_WORLD_RANK=", rank, rank.empty() ? "" : std::string(1, '\0'));
      if (absl::StrContains(environment, mark)) found.push_back(pid);
    }
    return found;
  }

  // Starts the job, calls `then` once it trains, and gives back how it ended.
  Outcome Disturb(int ranks, const std::string& flags, const std::function<void()>& then) {
    const std::string metrics = File("running.jsonl");
    const std::string command = absl::StrCat(REPRISE_SOURCE_DIR, "/launch/run -np ", ranks, " train ",
                                             Flags(absl::StrCat("--steps=100000000 --metrics=", metrics, " ", flags)));
    double seconds = 0;
    auto job = std::async(std::launch::async, [&] { return Shell(command); });
    while (MetricsOf(metrics, "step").size() < 3) {
      if (job.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready) break;
    }
    const auto begin = std::chrono::steady_clock::now();
    then();
    Outcome outcome = job.get();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, kSoon) << outcome.errors;
    for (int i = 0; i < 50 && !Ranks().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(Ranks().empty());
    return outcome;
  }

  void Signal(const std::string& rank, int signal) const {
    const std::vector<pid_t> pids = Ranks(rank);
    ASSERT_EQ(pids.size(), 1U);
    ASSERT_EQ(kill(pids[0], signal), 0);
  }
};

TEST_F(FailingRank, Killed) {
  const Outcome outcome = Disturb(3, "", [&] { Signal("1", SIGKILL); });
  EXPECT_EQ(outcome.exit_code, 5) << outcome.errors;
  EXPECT_LE(ErrorLines(outcome).size(), 1U) << outcome.errors;
}

TEST_F(FailingRank, FirstRankKilled) {
  const Outcome outcome = Disturb(2, "", [&] { Signal("0", SIGKILL); });
  EXPECT_EQ(outcome.exit_code, 5) << outcome.errors;
}

TEST_F(FailingRank, StoppedBeyondTheDeadline) {
  const Outcome outcome = Disturb(3, "--deadline=3", [&] { Signal("2", SIGSTOP); });
  EXPECT_EQ(outcome.exit_code, 5) << outcome.errors;
  const std::vector<std::string> lines = ErrorLines(outcome);
  ASSERT_EQ(lines.size(), 1U) << outcome.errors;
  EXPECT_THAT(lines[0], AllOf(HasSubstr("number "), HasSubstr(" 3 s"), HasSubstr("rank 2")));
}

// What only the ranks that read it can know, in the middle of a run.
TEST_F(FailingRank, DataCutWhileItIsRead) {
  std::filesystem::copy(File("text.txt"), File("cut.txt"));
  const Outcome outcome =
      Disturb(2, absl::StrCat("--data=", File("cut.txt")), [&] { std::filesystem::resize_file(File("cut.txt"), 20); });
  EXPECT_EQ(outcome.exit_code, 3) << outcome.errors;
  const std::vector<std::string> lines = ErrorLines(outcome);
  ASSERT_EQ(lines.size(), 1U) << outcome.errors;
  EXPECT_THAT(lines[0], HasSubstr("cut.txt: it ends at byte 20"));
}

}  // namespace
}  // namespace reprise::testing
