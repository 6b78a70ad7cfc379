#include "runtime/train/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/train/token_data.h"
#include "tests/tools/fault_storage.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Words;

struct Window {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
};

Window Read(const Dataset& data, int64_t index) {
  Window window{std::vector<int32_t>(static_cast<size_t>(data.sequence_length())), {}};
  window.labels = window.tokens;
  EXPECT_TRUE(data.ReadWindow(index, absl::MakeSpan(window.tokens), absl::MakeSpan(window.labels)).ok());
  return window;
}

TEST(Dataset, WindowsAreTokensAndWhatFollows) {
  testing::MemoryStorage storage;
  storage.Put("a.txt", "abcdefghij");
  auto data = Dataset::Open(storage, {.path = "a.txt", .vocabulary = 256, .sequence_length = 3});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->tokens(), 10);
  EXPECT_EQ((*data)->windows(), 3);
  EXPECT_THAT(Read(**data, 0).tokens, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Read(**data, 0).labels, ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(Read(**data, 2).tokens, ElementsAre('g', 'h', 'i'));
  EXPECT_THAT(Read(**data, 2).labels, ElementsAre('h', 'i', 'j'));
}

TEST(Dataset, CountsWindowsByTheFormula) {
  for (int64_t tokens = 1; tokens <= 40; ++tokens) {
    for (int64_t length = 1; length <= 9; ++length) {
      testing::MemoryStorage storage;
      storage.Put("a", std::string(static_cast<size_t>(tokens), 'a'));
      auto data = Dataset::Open(storage, {.path = "a", .vocabulary = 256, .sequence_length = length});
      int64_t count = 0;
      while ((count + 1) * length + 1 <= tokens) ++count;  // a window more needs its tokens and one that follows
      ASSERT_EQ((*data)->windows(), count) << tokens << " " << length;
    }
  }
}

TEST(Dataset, FolderIsItsFilesInNameOrderAndWindowsNeverCross) {
  testing::MemoryStorage storage;
  storage.Put("d/b.txt", "vwxyz");
  storage.Put("d/a.txt", "abcd");
  storage.Put("d/aa.txt", "s");  // too short for a window
  storage.Put("d/.hidden", "no");
  storage.Put("d/sub/c.txt", "no");
  auto data = Dataset::Open(storage, {.path = "d", .vocabulary = 256, .sequence_length = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->tokens(), 10);
  ASSERT_EQ((*data)->windows(), 3);
  EXPECT_THAT(Read(**data, 0).labels, ElementsAre('b', 'c'));
  EXPECT_THAT(Read(**data, 1).labels, ElementsAre('w', 'x'));
  EXPECT_THAT(Read(**data, 2).labels, ElementsAre('y', 'z'));
}

TEST(Dataset, BadFoldersAreRefused) {
  testing::MemoryStorage storage;
  const auto open = [&](const std::string& path) {
    const absl::Status status =
        Dataset::Open(storage, {.path = path, .vocabulary = 256, .sequence_length = 2}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_THAT(open("none"), HasSubstr("cannot open none"));
  storage.Put("empty/.keep", "x");
  EXPECT_THAT(open("empty"), HasSubstr("empty holds no files"));
  storage.Put("mixed/a.bin", Words<uint16_t>({1, 2, 3}));
  storage.Put("mixed/readme.txt", "how it was made");
  EXPECT_THAT(open("mixed"), HasSubstr("mixed/readme.txt looks like text, but mixed/a.bin like u16"));
  storage.Put("hole/a.txt", "abc");
  storage.Put("hole/b.txt", "");
  EXPECT_THAT(open("hole"), HasSubstr("hole/b.txt is empty"));
}

TEST(Dataset, VerifyFindsBadIdsWhereverTheyAreAndReportsProgress) {
  testing::MemoryStorage storage;
  std::vector<uint16_t> tokens(600000, 3);
  storage.Put("d/a.bin", Words(tokens));
  storage.Put("d/b.bin", Words(tokens));
  DatasetOptions options = {.path = "d", .vocabulary = 9, .sequence_length = 7};
  std::vector<int64_t> seen;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 1200000);
    seen.push_back(done);
  };
  ASSERT_TRUE(Dataset::Open(storage, options).ok());
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), 1200000);

  tokens[599999] = 9;  // in no window, still a sign of the wrong tokenizer
  storage.Put("d/b.bin", Words(tokens));
  options.progress = nullptr;
  const absl::Status status = Dataset::Open(storage, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("d/b.bin holds token 9 at byte 1199998"));
  options.verify = false;
  EXPECT_TRUE(Dataset::Open(storage, options).ok());
}

TEST(Dataset, PartsOfVerifyCoverEveryTokenOnce) {
  for (int64_t bad = 0; bad < 10; ++bad) {
    testing::MemoryStorage storage;
    std::vector<uint16_t> tokens(10, 1);
    tokens[static_cast<size_t>(bad)] = 5;
    storage.Put("d/a.bin", Words(std::vector<uint16_t>(tokens.begin(), tokens.begin() + 4)));
    storage.Put("d/b.bin", Words(std::vector<uint16_t>(tokens.begin() + 4, tokens.end())));
    for (const int64_t parts : {1, 2, 3, 7, 16}) {
      int found = 0;
      for (int64_t part = 0; part < parts; ++part) {
        found += Dataset::Open(
                     storage,
                     {.path = "d", .vocabulary = 5, .sequence_length = 2, .verify_part = part, .verify_parts = parts})
                         .ok()
                     ? 0
                     : 1;
      }
      EXPECT_EQ(found, 1) << bad << " " << parts;
    }
  }
}

TEST(Dataset, UnverifiedBadIdShowsWhenItsWindowIsRead) {
  testing::MemoryStorage storage;
  storage.Put("a.bin", Words<uint16_t>({0, 1, 2, 3, 4, 5, 6}));
  auto data = *Dataset::Open(storage, {.path = "a.bin", .vocabulary = 6, .sequence_length = 3, .verify = false});
  std::vector<int32_t> tokens(3);
  std::vector<int32_t> labels(3);
  EXPECT_TRUE(data->ReadWindow(0, absl::MakeSpan(tokens), absl::MakeSpan(labels)).ok());
  EXPECT_THAT(std::string(data->ReadWindow(1, absl::MakeSpan(tokens), absl::MakeSpan(labels)).message()),
              HasSubstr("a.bin holds token 6 at byte 12"));
}

}  // namespace
}  // namespace reprise
