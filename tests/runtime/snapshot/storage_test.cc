#include "runtime/snapshot/storage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

TEST(PosixStorage, ReadsWhatItWrote) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("a");
  ASSERT_TRUE(WriteWholeFile(PosixStorage(), path, "hello world").ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 11), "hello world");
  auto file = *PosixStorage().Open(path);
  EXPECT_EQ(file->size(), 11);
  std::byte part[5];
  ASSERT_TRUE(file->ReadAt(6, absl::MakeSpan(part)).ok());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(part), 5), "world");
}

TEST(PosixStorage, NeverReadsPastTheEnd) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("a");
  ASSERT_TRUE(WriteWholeFile(PosixStorage(), path, "hello").ok());
  auto file = *PosixStorage().Open(path);
  std::byte part[3];
  for (const int64_t offset : {int64_t{3}, int64_t{6}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(file->ReadAt(offset, absl::MakeSpan(part)).code(), absl::StatusCode::kDataLoss) << offset;
  }
  EXPECT_TRUE(file->ReadAt(5, {}).ok());
}

TEST(PosixStorage, FileCutWhileOpenIsAnError) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("a");
  ASSERT_TRUE(WriteWholeFile(PosixStorage(), path, "hello").ok());
  auto file = *PosixStorage().Open(path);
  ASSERT_EQ(truncate(path.c_str(), 2), 0);
  std::byte part[5];
  const absl::Status status = file->ReadAt(0, absl::MakeSpan(part));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it ends at byte 2"));
}

TEST(PosixStorage, AtomicFileIsAllOrNothing) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("a");
  ASSERT_TRUE(WriteWholeFile(PosixStorage(), path, "old").ok());
  {
    auto file = *PosixStorage().Create(path);
    ASSERT_TRUE(file->Append(Bytes("new")).ok());
    EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 100), "old");
  }
  EXPECT_THAT(*PosixStorage().List(folder.path()), ElementsAre("a"));
  auto file = *PosixStorage().Create(path);
  ASSERT_TRUE(file->Append(Bytes("new")).ok());
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 100), "new");
  EXPECT_THAT(*PosixStorage().List(folder.path()), ElementsAre("a"));
}

TEST(PosixStorage, AtomicFileOfAKilledProcessIsGone) {
  const testing::TemporaryFolder folder;
  const int nameless = open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless < 0) GTEST_SKIP() << "this file system has no files without names";
  close(nameless);
  const pid_t child = fork();
  if (child == 0) {
    auto file = PosixStorage().Create(folder.File("a"));
    if (!file.ok() || !(*file)->Append(Bytes("half")).ok()) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(*PosixStorage().List(folder.path()), ElementsAre());
}

TEST(PosixStorage, AtomicFilesOfOneNameDoNotMeet) {
  const testing::TemporaryFolder folder;
  auto one = *PosixStorage().Create(folder.File("a"));
  auto other = *PosixStorage().Create(folder.File("a"));
  ASSERT_TRUE(one->Append(Bytes("one")).ok());
  ASSERT_TRUE(other->Append(Bytes("other")).ok());
  ASSERT_TRUE(other->Finish().ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), folder.File("a"), 100), "other");
  ASSERT_TRUE(one->Finish().ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), folder.File("a"), 100), "one");
  EXPECT_THAT(*PosixStorage().List(folder.path()), ElementsAre("a"));
}

TEST(PosixStorage, NameThatIsTooLongIsRefusedAtOnce) {
  const testing::TemporaryFolder folder;
  for (const size_t length : {size_t{255}, size_t{300}}) {
    const absl::Status status = PosixStorage().Create(folder.File(std::string(length, 'n'))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length;
    EXPECT_THAT(std::string(status.message()), HasSubstr("name too long"));
  }
}

TEST(PosixStorage, ErrorsNamePathReasonAndMend) {
  testing::TemporaryFolder folder;
  const absl::Status missing = PosixStorage().Open(folder.File("none")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(missing.message(), "cannot open " + folder.File("none") + ": No such file or directory; check the path");
  EXPECT_EQ(PosixStorage().Open(folder.path()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(PosixStorage().List(folder.File("none")).status().code(), absl::StatusCode::kDataLoss);
  const absl::Status write = PosixStorage().Create(folder.File("none/a")).status();
  EXPECT_EQ(write.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(write.message()), HasSubstr("none/a: No such file or directory"));
  EXPECT_EQ(PosixStorage().Create(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PosixStorage().OpenLines(folder.path(), LineStreamMode::kAppend).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PosixStorage, PipeIsRefusedWithoutWaiting) {
  testing::TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(PosixStorage().Open(folder.File("pipe")).status().message()),
              HasSubstr("not a regular file"));
}

// A rename at the end would put a file in its place, as it would for /dev/null.
TEST(PosixStorage, AtomicFileDoesNotReplaceAPipe) {
  const testing::TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(PosixStorage().Create(pipe).status().message()), HasSubstr("not a regular file"));
  struct stat info = {};
  ASSERT_EQ(stat(pipe.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST(PosixStorage, FullDiskIsReported) {
  if (!PosixStorage().Exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto lines = PosixStorage().OpenLines("/dev/full", LineStreamMode::kAppend);
  ASSERT_TRUE(lines.ok()) << lines.status();
  const absl::Status status = (*lines)->WriteLine("x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device; free some space"));
}

TEST(PosixStorage, LinesAreThereAtOnce) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("lines");
  auto lines = *PosixStorage().OpenLines(path, LineStreamMode::kReplace);
  ASSERT_TRUE(lines->WriteLine("one").ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 100), "one\n");
  auto more = *PosixStorage().OpenLines(path, LineStreamMode::kAppend);
  ASSERT_TRUE(more->WriteLine("two").ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 100), "one\ntwo\n");
}

// A run that is refused after it has opened its files must not cost those of an earlier one.
TEST(PosixStorage, LinesAreReplacedByTheFirstNewOne) {
  const testing::TemporaryFolder folder;
  testing::MemoryStorage memory;
  for (Storage* storage : {&PosixStorage(), static_cast<Storage*>(&memory)}) {
    const std::string path = folder.File("lines");
    ASSERT_TRUE(WriteWholeFile(*storage, path, "earlier\n").ok());
    { auto unused = *storage->OpenLines(path, LineStreamMode::kReplace); }
    EXPECT_EQ(*ReadWholeFile(*storage, path, 100), "earlier\n");
    auto lines = *storage->OpenLines(path, LineStreamMode::kReplace);
    ASSERT_TRUE(lines->WriteLine("one").ok());
    ASSERT_TRUE(lines->WriteLine("two").ok());
    EXPECT_EQ(*ReadWholeFile(*storage, path, 100), "one\ntwo\n");
  }
}

TEST(PosixStorage, LinesGoToAPipeOnlyIfItIsRead) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.File("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const LineStreamMode mode : {LineStreamMode::kReplace, LineStreamMode::kAppend}) {
    const absl::Status status = PosixStorage().OpenLines(path, mode).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("pipe: not a regular file; name another path"));
  }
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto lines = PosixStorage().OpenLines(path, LineStreamMode::kReplace);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_TRUE((*lines)->WriteLine("one").ok());
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_EQ(std::string(text), "one\n");
  close(reader);
}

TEST(PosixStorage, FoldersAreMadeListedRenamedRemoved) {
  testing::TemporaryFolder folder;
  Storage& storage = PosixStorage();
  ASSERT_TRUE(storage.CreateFolder(folder.File("x/y/z")).ok());
  ASSERT_TRUE(storage.CreateFolder(folder.File("x/y/z/")).ok());
  EXPECT_TRUE(storage.IsFolder(folder.File("x/y/z")));
  ASSERT_TRUE(WriteWholeFile(storage, folder.File("x/b"), "").ok());
  EXPECT_THAT(*storage.List(folder.File("x")), ElementsAre("b", "y"));
  EXPECT_FALSE(storage.IsFolder(folder.File("x/b")));
  EXPECT_FALSE(storage.CreateFolder(folder.File("x/b")).ok());
  EXPECT_FALSE(storage.Remove(folder.File("x")).ok());
  ASSERT_TRUE(storage.Rename(folder.File("x/y"), folder.File("w")).ok());
  EXPECT_TRUE(storage.IsFolder(folder.File("w/z")));
  ASSERT_TRUE(storage.Remove(folder.File("x/b")).ok());
  ASSERT_TRUE(storage.Remove(folder.File("x/b")).ok());
  EXPECT_FALSE(storage.Exists(folder.File("x/b")));
}

TEST(ReadWholeFile, RefusesMoreThanItsLimit) {
  testing::MemoryStorage storage;
  storage.Put("a", "12345");
  EXPECT_EQ(*ReadWholeFile(storage, "a", 5), "12345");
  EXPECT_EQ(ReadWholeFile(storage, "a", 4).status().code(), absl::StatusCode::kDataLoss);
}

TEST(FaultStorage, FailsTheWriteItIsToldTo) {
  // Create, Append, Finish: each of the three in turn, and nothing is left under the name.
  for (int64_t fail = 1; fail <= 4; ++fail) {
    testing::MemoryStorage memory;
    testing::FaultStorage faulty(&memory);
    faulty.FailOnly(fail);
    EXPECT_EQ(WriteWholeFile(faulty, "a", "text").ok(), fail == 4) << fail;
    EXPECT_EQ(memory.Exists("a"), fail == 4) << fail;
  }
}

TEST(MemoryStorage, BehavesLikeFiles) {
  testing::MemoryStorage storage;
  storage.Put("d/b", "1");
  storage.Put("d/a/c", "2");
  EXPECT_THAT(*storage.List("d"), ElementsAre("a", "b"));
  EXPECT_TRUE(storage.IsFolder("d/a"));
  EXPECT_FALSE(storage.IsFolder("d/b"));
  ASSERT_TRUE(storage.Rename("d/a", "e").ok());
  EXPECT_THAT(storage.Paths(), ElementsAre("d/b", "e/c"));
  EXPECT_FALSE(storage.List("none").ok());
}

}  // namespace
}  // namespace reprise
