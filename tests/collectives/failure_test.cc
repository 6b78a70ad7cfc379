// What ranks under mpirun do when one of them fails: all end within seconds, with 5, and say why.
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/paths.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  double seconds = 0;
  std::string output;
};

Outcome RunRanksOf(const std::string& scenario, int ranks, double deadline_seconds, const std::string& transport) {
  const std::string command = absl::StrCat(
      "REPRISE_MPI_TRANSPORT=", transport, " mpirun --allow-run-as-root --oversubscribe --bind-to none -np ", ranks,
      " ", ProgramPath("failing_mpi_program"), " ", scenario, " ", deadline_seconds, " 2>&1 < /dev/null");
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

class MpiFailure : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Transports, MpiFailure, ::testing::Values("shared", "messages"));

// The waits below are bounded by what would happen without the news: a deadline or a sleep of 60 s.
constexpr double kFarDeadline = 60;
constexpr double kSoon = 30;

TEST_P(MpiFailure, DifferentKindsNameBoth) {
  const Outcome outcome = RunRanksOf("kind", 2, kFarDeadline, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(outcome.output, HasSubstr("reprise: ranks started different collectives: rank 0 all-gather of 'h.3' (128 "
                                        "bytes a rank), rank 1 reduce-scatter of 'h.4' (128 bytes a rank), both as "
                                        "number 1 of the gather sequence"));
}

TEST_P(MpiFailure, DifferentSizesNameBoth) {
  const Outcome outcome = RunRanksOf("size", 3, kFarDeadline, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 2 all-gather of 'h.3' (256 bytes a rank)"),
                                    HasSubstr("all-gather of 'h.3' (128 bytes a rank)")));
}

TEST_P(MpiFailure, DifferentLabelsNameBoth) {
  const Outcome outcome = RunRanksOf("label", 2, kFarDeadline, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("'h.3'"), HasSubstr("'h.4'")));
}

TEST_P(MpiFailure, ARankThatNeverComesIsNamedAtTheDeadline) {
  const Outcome outcome = RunRanksOf("absent", 3, 2, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(
      outcome.output,
      HasSubstr("all-gather of 'h.7' (128 bytes a rank), number 1 of the gather sequence was not met within 2 s "
                "by rank 2"));
}

TEST_P(MpiFailure, AKilledRankEndsTheOthers) {
  const Outcome outcome = RunRanksOf("killed", 3, kFarDeadline, GetParam());
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
}

TEST_P(MpiFailure, AbortEndsAllWithItsCode) {
  const Outcome outcome = RunRanksOf("abort", 3, kFarDeadline, GetParam());
  EXPECT_EQ(outcome.exit_code, 6) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(outcome.output, Not(HasSubstr("reprise: ")));
}

TEST_P(MpiFailure, TooManyInFlight) {
  const Outcome outcome = RunRanksOf("pending", 2, kFarDeadline, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("more than 256 collectives in flight"));
}

TEST_P(MpiFailure, ARankThatNeverStarts) {
  const Outcome outcome = RunRanksOf("start", 2, 2, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(outcome.output, HasSubstr("reprise: the start of MPI on all ranks did not return within 2 s"));
}

TEST_P(MpiFailure, ARankThatNeverEnds) {
  const Outcome outcome = RunRanksOf("end", 2, 2, GetParam());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.output;
  EXPECT_LT(outcome.seconds, kSoon);
  EXPECT_THAT(outcome.output, HasSubstr("reprise: rank 0: "));
}

TEST(MpiCommunicator, BadTransportIsRefused) {
  const Outcome outcome = RunRanksOf("none", 1, 2, "pigeons");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("reprise: REPRISE_MPI_TRANSPORT is 'pigeons'"));
}

TEST(MpiCommunicator, BadDeadlineIsRefused) { EXPECT_EQ(RunRanksOf("none", 1, 0, "").exit_code, 2); }

}  // namespace
}  // namespace reprise::testing
