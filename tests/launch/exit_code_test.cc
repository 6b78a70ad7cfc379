#include "launch/exit_code.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launch/same_settings.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

TEST(ExitCode, FollowsTheInterface) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::UnimplementedError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), 4);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), 5);
  EXPECT_EQ(ExitCodeFor(absl::AbortedError("")), 5);
  EXPECT_EQ(ExitCodeFor(absl::OutOfRangeError("")), 6);
}

std::string Contents(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ExitFile, TheFirstCauseWins) {
  const testing::TemporaryFolder folder;
  for (const int code : {2, 42, 143}) {
    const std::string path = folder.File(std::to_string(code));
    setenv("REPRISE_EXIT_FILE", path.c_str(), 1);
    EXPECT_TRUE(WriteExitFile(code));
    EXPECT_FALSE(WriteExitFile(5));
    EXPECT_EQ(Contents(path), std::to_string(code));
  }
  setenv("REPRISE_EXIT_FILE", folder.File("absent/file").c_str(), 1);
  EXPECT_TRUE(WriteExitFile(3));
  unsetenv("REPRISE_EXIT_FILE");
  EXPECT_TRUE(WriteExitFile(3));
}

TEST(ExitFile, ExitWithWritesAndExits) {
  const testing::TemporaryFolder folder;
  setenv("REPRISE_EXIT_FILE", folder.File("code").c_str(), 1);
  EXPECT_EXIT(ExitWith(6), ::testing::ExitedWithCode(6), "");
  EXPECT_EQ(Contents(folder.File("code")), "6");
  EXPECT_EXIT(ExitWith(0), ::testing::ExitedWithCode(0), "");
  unsetenv("REPRISE_EXIT_FILE");
}

TEST(PrintError, IsOneLine) {
  ::testing::internal::CaptureStderr();
  PrintError(absl::DataLossError("a\nb\tc"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise: a b c\n");
}

TEST(SpeakAlone, IsSilentWhereAnotherSpoke) {
  const testing::TemporaryFolder folder;
  setenv("REPRISE_EXIT_FILE", folder.File("code").c_str(), 1);
  ::testing::internal::CaptureStderr();
  SpeakAlone(absl::DataLossError("first"), 0);
  SpeakAlone(absl::UnavailableError("second"), 1);
  unsetenv("REPRISE_EXIT_FILE");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise: first\n");
  EXPECT_EQ(Contents(folder.File("code")), "3");
}

TEST(SameSettings, NamesTheFirstThatDiffers) {
  EXPECT_TRUE(CompareSettings({"a = 1\nb = 2\n"}).ok());
  EXPECT_TRUE(CompareSettings({"a = 1\nb = 2\n", "a = 1\nb = 2\n"}).ok());
  const absl::Status status =
      CompareSettings({"a = 1\nb = 2\nc = 3\n", "a = 1\nb = 2\nc = 3\n", "a = 1\nb = 5\nc = 4\n"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "--b differs between ranks: 2 on rank 0, 5 on rank 2; start every rank with the same flags");
}

TEST(SameSettings, SaysWhereNamesDiffer) {
  for (const char* other : {"a = 1\n", "z = 1\nb = 2\n", ""}) {
    const absl::Status status = CompareSettings({"a = 1\nb = 2\n", other});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    EXPECT_NE(status.message().find("rank 1 has other settings"), std::string::npos) << status;
  }
}

TEST(SameSettings, EveryRankGetsTheSameAnswer) {
  std::vector<std::unique_ptr<Communicator>> communicators = MakeLocalCommunicators(3, {});
  std::vector<absl::Status> answers(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      answers[rank] = CheckSameOnAllRanks(*communicators[rank], rank == 1 ? "seed = 2\n" : "seed = 1\n");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(answer.message(),
              "--seed differs between ranks: 1 on rank 0, 2 on rank 1; start every rank with the same flags");
  }
}

}  // namespace
}  // namespace reprise
