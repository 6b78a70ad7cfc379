#include "runtime/train/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/runtime/train/token_data.h"
#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Llmc;
using testing::Words;

absl::StatusOr<TokenFile> OpenBytes(const std::string& name, const std::string& bytes, TokenFormat format,
                                    int64_t vocabulary = 50257) {
  static testing::MemoryStorage storage;
  storage.Put(name, bytes);
  return TokenFile::Open(storage, name, format, vocabulary);
}

void ExpectRefused(const std::string& name, const std::string& bytes, TokenFormat format, const std::string& why,
                   int64_t vocabulary = 50257) {
  const absl::Status status = OpenBytes(name, bytes, format, vocabulary).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(name), HasSubstr(why)));
}

std::vector<int32_t> All(const TokenFile& file) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.tokens()));
  EXPECT_TRUE(file.Read(0, absl::MakeSpan(tokens)).ok());
  return tokens;
}

TEST(TokenFile, ReadsEachFormat) {
  auto text = OpenBytes("a.txt", "Az\xff", TokenFormat::kAuto, 256);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->format(), TokenFormat::kText);
  EXPECT_THAT(All(*text), ElementsAre(65, 122, 255));
  auto u16 = OpenBytes("a.bin", Words<uint16_t>({1, 50256, 7}), TokenFormat::kAuto);
  EXPECT_EQ(u16->format(), TokenFormat::kU16);
  EXPECT_THAT(All(*u16), ElementsAre(1, 50256, 7));
  for (const char* name : {"a.bin", "a.dat"}) {
    auto narrow = OpenBytes(name, Llmc<uint16_t>(20240520, 1, {1, 50256, 7}), TokenFormat::kAuto);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_EQ(narrow->format(), TokenFormat::kLlmc);
    EXPECT_THAT(All(*narrow), ElementsAre(1, 50256, 7));
    auto wide = OpenBytes(name, Llmc<uint32_t>(20240801, 7, {1, 128255, 7}), TokenFormat::kAuto, 128256);
    ASSERT_TRUE(wide.ok()) << wide.status();
    EXPECT_EQ(wide->token_bytes(), 4);
    EXPECT_THAT(All(*wide), ElementsAre(1, 128255, 7));
  }
  EXPECT_THAT(All(*OpenBytes("a.bin", "ab", TokenFormat::kText, 256)), ElementsAre(97, 98));
}

TEST(TokenFile, RefusesBadSizesAndHeaders) {
  ExpectRefused("e", "", TokenFormat::kAuto, "is empty");
  ExpectRefused("odd.bin", "abc", TokenFormat::kAuto, "3 bytes, an odd number");
  ExpectRefused("one.bin", "a", TokenFormat::kU16, "an odd number");
  ExpectRefused("m", Llmc<uint16_t>(1, 1, {1, 2}), TokenFormat::kLlmc, "begins with 1 where");
  ExpectRefused("x", "ab", TokenFormat::kLlmc, "where llm.c's token files have 20240520 or 20240801");
  ExpectRefused("v", Llmc<uint16_t>(20240520, 2, {1, 2}), TokenFormat::kAuto, "version 2 where 1");
  ExpectRefused("v", Llmc<uint32_t>(20240801, 1, {1, 2}), TokenFormat::kAuto, "version 1 where 7");
  ExpectRefused("h", Llmc<uint16_t>(20240522, 1, {1, 2}), TokenFormat::kAuto, "evaluation file");
  ExpectRefused("n", Llmc<uint16_t>(20240520, 1, {1, 2}, 0), TokenFormat::kAuto, "holds 0 tokens");
  ExpectRefused("n", Llmc<uint16_t>(20240520, 1, {1, 2}, -2), TokenFormat::kAuto, "holds -2 tokens");
  ExpectRefused("n", Llmc<uint16_t>(20240520, 1, {1, 2}, 3), TokenFormat::kAuto, "3 tokens, which is 1030 bytes");
  ExpectRefused("n", Llmc<uint32_t>(20240801, 7, {1, 2}, INT32_MAX), TokenFormat::kAuto, "which is 8589935612 bytes");
  ExpectRefused("u", Llmc<uint16_t>(20240520, 1, {1, 2}), TokenFormat::kU16, "use --data_format=llmc");
}

TEST(TokenFile, EveryTruncationOfLlmcIsRefused) {
  const std::string good = Llmc<uint16_t>(20240520, 1, {1, 2, 3});
  ASSERT_TRUE(OpenBytes("t.bin", good, TokenFormat::kLlmc).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    ASSERT_EQ(OpenBytes("t.bin", good.substr(0, length), TokenFormat::kLlmc).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  }
  EXPECT_FALSE(OpenBytes("t.bin", good + "x", TokenFormat::kLlmc).ok());
}

TEST(TokenFile, SixteenBitsRefuseALargeVocabulary) {
  const std::string why = "ids of a vocabulary of 65537 don't fit";
  ExpectRefused("a.bin", Words<uint16_t>({1, 2}), TokenFormat::kAuto, why, 65537);
  ExpectRefused("a.bin", Llmc<uint16_t>(20240520, 1, {1, 2}), TokenFormat::kAuto, why, 65537);
  EXPECT_TRUE(OpenBytes("a.bin", Words<uint16_t>({1, 65535}), TokenFormat::kAuto, 65536).ok());
}

TEST(TokenFile, IdsBeyondTheVocabularyNameFileAndByte) {
  const auto check = [](const std::string& bytes, TokenFormat format, int64_t vocabulary, const std::string& why) {
    auto file = OpenBytes("ids", bytes, format, vocabulary);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->NeedsCheck());
    std::vector<int32_t> tokens(static_cast<size_t>(file->tokens()));
    const absl::Status status = file->Read(0, absl::MakeSpan(tokens));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  check("abc", TokenFormat::kText, 99, "ids holds token 99 at byte 2, but the vocabulary is 99");
  check(Words<uint16_t>({1, 2, 5}), TokenFormat::kU16, 5, "ids holds token 5 at byte 4");
  check(Llmc<uint16_t>(20240520, 1, {0, 50257}), TokenFormat::kLlmc, 50257, "token 50257 at byte 1026");
  check(Llmc<uint32_t>(20240801, 7, {0, 4294967295}), TokenFormat::kLlmc, 128256, "token 4294967295 at byte 1028");
  // Far in, beyond what is read at once.
  std::vector<uint16_t> many(30000, 1);
  many[29999] = 9;
  check(Words<uint16_t>(many), TokenFormat::kU16, 9, "token 9 at byte 59998");
  EXPECT_FALSE(OpenBytes("b", "abc", TokenFormat::kText, 256)->NeedsCheck());
  EXPECT_FALSE(OpenBytes("b", "abcd", TokenFormat::kU16, 65536)->NeedsCheck());
}

TEST(TokenFile, CutWhileOpenIsAnError) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("a.txt");
  ASSERT_TRUE(WriteWholeFile(PosixStorage(), path, std::string(100, 'a')).ok());
  auto file = TokenFile::Open(PosixStorage(), path, TokenFormat::kAuto, 256);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), 50), 0);
  std::vector<int32_t> tokens(100);
  EXPECT_EQ(file->Read(0, absl::MakeSpan(tokens)).code(), absl::StatusCode::kDataLoss);
}

TEST(ParseTokenFormat, KnowsItsNames) {
  EXPECT_EQ(*ParseTokenFormat("auto"), TokenFormat::kAuto);
  EXPECT_EQ(*ParseTokenFormat("llmc"), TokenFormat::kLlmc);
  EXPECT_EQ(ParseTokenFormat("idx").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ParseTokenFormat("").ok());
}

}  // namespace
}  // namespace reprise
