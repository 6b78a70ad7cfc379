// launch/tokenize, from the command line: the ids that a tokenizer made here must give, as `train` reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/train/token_file.h"
#include "tests/launch/shell.h"
#include "tests/tools/paths.h"

namespace reprise::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whole words, "w0" to "w<words - 1>" with ids from 1, 0 for any other; `last` special token behind them.
std::string WordTokenizer(int64_t words, const std::string& last = "") {
  std::vector<std::string> entries = {"\"<unk>\":0"};
  for (int64_t i = 0; i < words; ++i) entries.push_back(absl::StrCat("\"w", i, "\":", i + 1));
  const std::string added =
      last.empty()
          ? ""
          : absl::StrCat(R"({"id":)", words + 1, R"(,"content":")", last,
                         R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})");
  return absl::StrCat(R"({"version":"1.0","truncation":{"direction":"Right","max_length":3,"strategy":"LongestFirst",)",
                      R"("stride":0},"padding":null,"added_tokens":[)", added,
                      R"(],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,)",
                      R"("decoder":null,"model":{"type":"WordLevel","unk_token":"<unk>","vocab":{)",
                      absl::StrJoin(entries, ","), "}}}");
}

// Bytes as tokens with two merges, "ab" and "abc": <0x..> as GPT-2 writes bytes that are letters.
constexpr char kByteTokenizer[] =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":null,"decoder":null,"model":{"type":"BPE","dropout":null,"unk_token":null,
    "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
    "vocab":{"a":0,"b":1,"c":2,"Ġ":3,"Ċ":4,"ab":5,"abc":6,"ĊĊ":7},"merges":[["a","b"],["ab","c"],["Ċ","Ċ"]]}})";

class Tokenize : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("tokenizer.json", WordTokenizer(10, "<|endoftext|>"));
    const Outcome outcome = Run("--output=" + File("probe.bin") + " " + Text("w0"));
    if (outcome.exit_code == 2 && outcome.errors.find("could not be installed") != std::string::npos) {
      GTEST_SKIP() << "the PyPI package tokenizers cannot be had here: " << outcome.errors;
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  }

  std::string File(const std::string& name) const { return folder_.File(name); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
  }
  // A new file with this text.
  std::string Text(const std::string& text) {
    const std::string name = absl::StrCat("text", texts_++, ".txt");
    Write(name, text);
    return File(name);
  }
  Outcome Run(const std::string& flags, const std::string& before = "") const {
    return Shell(
        absl::StrCat(before, REPRISE_SOURCE_DIR, "/launch/tokenize --tokenizer=", File("tokenizer.json"), " ", flags));
  }
  // The ids of the output, read as `train` reads it.
  std::vector<int32_t> Ids(const std::string& flags, TokenFormat format = TokenFormat::kLlmc,
                           const std::string& before = "") const {
    const Outcome outcome = Run(absl::StrCat("--output=", File("out.bin"), " ", flags), before);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    const auto file = TokenFile::Open(PosixStorage(), File("out.bin"), format, /*vocabulary=*/int64_t{1} << 16);
    if (!file.ok()) return ADD_FAILURE() << file.status(), std::vector<int32_t>();
    std::vector<int32_t> ids(static_cast<size_t>(file->tokens()));
    EXPECT_TRUE(file->Read(0, absl::MakeSpan(ids)).ok());
    return ids;
  }
  void Refused(const std::string& flags, int code, const std::vector<std::string>& words) const {
    const Outcome outcome = Run(flags);
    EXPECT_EQ(outcome.exit_code, code) << flags << outcome.errors;
    const std::vector<std::string> lines = ErrorLines(outcome);
    ASSERT_EQ(lines.size(), 1U) << flags << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(lines[0], HasSubstr(word)) << flags;
    EXPECT_FALSE(std::filesystem::exists(File("refused.bin"))) << flags;
  }

  TemporaryFolder folder_;
  int texts_ = 0;
};

// The tokenizer's own truncation to 3 is not for data.
TEST_F(Tokenize, WordsBecomeIdsAndDocumentsEnd) {
  EXPECT_THAT(Ids(Text("w0 w3\nw9 other w1")), ElementsAre(1, 4, 10, 0, 2, 11));
  EXPECT_THAT(Ids(absl::StrCat(Text("w0\n"), " ", Text(""), " ", Text("w1 w2"))), ElementsAre(1, 11, 2, 3, 11));
  EXPECT_THAT(Ids("--data_format=u16 " + Text("w5"), TokenFormat::kU16), ElementsAre(6, 11));
  EXPECT_THAT(Ids("", TokenFormat::kLlmc, "printf 'w7 w8' | "), ElementsAre(8, 9, 11));
  EXPECT_THAT(Ids("--document_separator=0 " + Text("w5")), ElementsAre(6, 0));
  EXPECT_THAT(Ids("--document_separator=w1 " + Text("w5")), ElementsAre(6, 2));
  EXPECT_THAT(Ids("--document_separator=none " + Text("w5") + " " + Text("w6")), ElementsAre(6, 7));
}

TEST_F(Tokenize, LinesThatMatchDivideDocuments) {
  const std::string text = Text("<doc 1>\nw0\n w1\n<doc 2>\r\nw2\n<doc 3>\n<doc 4>\nw3 <doc 5>\n<doc 6>");
  EXPECT_THAT(Ids("--document_line='^<doc .>$' " + text), ElementsAre(1, 2, 11, 3, 11, 4, 0, 0, 11));
}

// Beyond what is encoded as one, in one line and in many, on all cores: not a word is lost or cut.
TEST_F(Tokenize, LongTextIsCutBetweenWords) {
  std::string line, lines;
  std::vector<int32_t> expected;
  for (int i = 0; expected.size() < 400000; ++i) {
    const auto word = static_cast<int>(int64_t{i} * i % 10);
    absl::StrAppend(&line, i == 0 ? "" : " ", "w", word);
    absl::StrAppend(&lines, "w", word, i % 7 == 0 ? "\n" : i % 11 == 0 ? "\n\n" : i % 13 == 0 ? "  " : " ");
    expected.push_back(word + 1);
  }
  expected.push_back(11);
  EXPECT_TRUE(Ids(Text(line)) == expected);
  EXPECT_TRUE(Ids(Text(lines)) == expected);
}

// The blank line is one token, so a cut behind its first line end would show.
TEST_F(Tokenize, ByteLevelPairsSurviveTheCuts) {
  Write("tokenizer.json", kByteTokenizer);
  EXPECT_THAT(Ids(Text("ab abc\n\n")), ElementsAre(5, 3, 6, 7));
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 150000; ++i) {
    text += i % 3 == 0 ? "abc\nab\n" : "ab\n";
    for (const int32_t id : i % 3 == 0 ? std::vector<int32_t>{6, 4, 5, 4} : std::vector<int32_t>{5, 4}) {
      expected.push_back(id);
    }
  }
  EXPECT_TRUE(Ids(Text(text)) == expected);
}

TEST_F(Tokenize, WideVocabularyTakes32Bits) {
  Write("tokenizer.json", WordTokenizer(70000));
  Refused(absl::StrCat("--data_format=u16 --output=", File("refused.bin"), " ", Text("w0")), 2,
          {"--data_format=u16", "16 bits", "70001", "llmc"});
  const Outcome outcome = Run(absl::StrCat("--output=", File("wide.bin"), " ", Text("w69999 w1")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto file = TokenFile::Open(PosixStorage(), File("wide.bin"), TokenFormat::kAuto, 70001);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->token_bytes(), 4);
  std::vector<int32_t> ids(2);
  ASSERT_EQ(file->tokens(), 2);
  ASSERT_TRUE(file->Read(0, absl::MakeSpan(ids)).ok());
  EXPECT_THAT(ids, ElementsAre(70000, 2));
}

TEST_F(Tokenize, RefusesInOneSentence) {
  const std::string good = Text("w0");
  const std::string out = absl::StrCat("--output=", File("refused.bin"), " ");
  Refused(out + File("absent"), 3, {"absent", "check the path"});
  Refused(out + folder_.path(), 3, {"is a folder"});
  Refused(out + Text("w0 \xff w1"), 3, {"not UTF-8 at byte 3"});
  Refused(out + Text("w0 \xc3"), 3, {"not UTF-8 at byte 3"});
  Refused(out + Text(std::string(300000, 'a') + "\xff"), 3, {"not UTF-8 at byte 300000"});
  Refused(out + Text(""), 3, {"no text"});
  Refused(out + "--nonsense " + good, 2, {"--nonsense"});
  Refused(out + "--data_format=csv " + good, 2, {"csv", "llmc"});
  Refused(out + "--document_separator=99 " + good, 2, {"--document_separator=99", "no id"});
  Refused(out + "--document_separator=none_such " + good, 2, {"none_such", "no token"});
  Refused(out + "--document_line='(' " + good, 2, {"--document_line", "regular expression"});
  Refused("--output=/proc/absent/x " + good, 2, {"/proc/absent/x", "can't be written"});
  Refused("--output=/dev/null " + good, 2, {"/dev/null", "not a regular file"});
  Write("tokenizer.json", "{}");
  Refused(out + good, 3, {"tokenizer.json", "no tokenizer"});
  Write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  Refused(out + good, 3, {"tokenizer.json", "Git LFS pointer"});
  std::filesystem::remove(File("tokenizer.json"));
  Refused(out + good, 3, {"tokenizer.json", "No such file"});
}

TEST_F(Tokenize, NoSeparatorIsKnown) {
  Write("tokenizer.json", WordTokenizer(3));
  EXPECT_THAT(Ids(Text("w0")), ElementsAre(1));
  Refused(absl::StrCat("--output=", File("refused.bin"), " ", Text("w0"), " ", Text("w1")), 2,
          {"--document_separator"});
}

// Neither the text nor what stood under the output's name is lost, and nothing is left beside it.
TEST_F(Tokenize, OutputsAreCompleteOrAbsent) {
  const std::string text = Text("w0 w1");
  std::filesystem::create_hard_link(text, File("link.txt"));
  for (const std::string& name : {text, File("link.txt"), File("tokenizer.json")}) {
    const std::string before = Contents(name);
    Refused(absl::StrCat("--output=", name, " ", text), 2, {"is an input too"});
    EXPECT_EQ(Contents(name), before);
  }
  Write("kept.bin", "before");
  Refused(absl::StrCat("--output=", File("kept.bin"), " ", text, " ", Text("\xff")), 3, {"not UTF-8"});
  EXPECT_EQ(Contents(File("kept.bin")), "before");
  EXPECT_EQ(Shell(absl::StrCat("(printf w0; sleep 4) | timeout -s TERM --preserve-status 2 ", REPRISE_SOURCE_DIR,
                               "/launch/tokenize --tokenizer=", File("tokenizer.json"), " --output=", File("kept.bin")))
                .exit_code,
            143);
  EXPECT_EQ(Contents(File("kept.bin")), "before");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace reprise::testing
