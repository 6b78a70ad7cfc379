#include "runtime/snapshot/read_model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ParseFlatJson, LaysNestedValuesFlat) {
  auto flat = ParseFlatJson(R"({"a":1,"b":{"c":[true,null,{"d":"x"}],"e":-2.5},"f":{},"g":[]})", "s");
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_THAT(*flat, ElementsAre(Pair("a", JsonScalar(int64_t{1})), Pair("b.c.0", JsonScalar(true)),
                                 Pair("b.c.1", JsonScalar()), Pair("b.c.2.d", JsonScalar(std::string("x"))),
                                 Pair("b.e", JsonScalar(-2.5)), Pair("f", JsonScalar(EmptyJson())),
                                 Pair("g", JsonScalar(EmptyJson()))));
}

TEST(ParseFlatJson, RefusesWhatIsNotOneObject) {
  for (const std::string text : {"", "[]", "1", "\"a\"", "null", "{", "{\"a\":1}{}", "{\"a\":1,\"a\":2}", "{\"a\":NaN}",
                                 "{\"a\":1e999}", "{'a':1}", "{\"a\":01}", "\xff"}) {
    EXPECT_EQ(ParseFlatJson(text, "s").status().code(), absl::StatusCode::kDataLoss) << text;
  }
  EXPECT_THAT(std::string(ParseFlatJson("{\"a\":" + std::string(1000000, '['), "s").status().message()),
              HasSubstr("nests more than 32 deep"));
}

TEST(ParseFlatJson, RefusesObjectsThatStandTwice) {
  for (const char* text : {R"({"a":{"b":1},"a":{"c":1}})", R"({"a":{"b":1},"a":1})", R"({"a":[],"a":{"c":1}})",
                           R"({"a.b":1,"a":{"b":2}})"}) {
    EXPECT_THAT(std::string(ParseFlatJson(text, "s").status().message()), HasSubstr("twice")) << text;
  }
}

// Every value stands under its whole path: a name of 1 MB over a million values would take a terabyte.
TEST(ParseFlatJson, MemoryStaysInProportionToTheText) {
  std::string zeros;
  for (int i = 0; i < 1000; ++i) zeros += "0,";
  const std::string bomb = absl::StrCat("{\"", std::string(100000, 'n'), "\":[", zeros, "0]}");
  EXPECT_THAT(std::string(ParseFlatJson(bomb, "s").status().message()), HasSubstr("under long names"));
  EXPECT_TRUE(ParseFlatJson(absl::StrCat("{\"name\":[", zeros, "0]}"), "s").ok());
}

TEST(ReadModelConfig, NamesAGitLfsPointer) {
  testing::MemoryStorage storage;
  storage.Put("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  const absl::Status status = ReadModelConfig(storage, "config.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json is a Git LFS pointer"));
}

TEST(ReadModelConfig, ReadsGoldenConfig) {
  auto config = ReadModelConfig(PosixStorage(), testing::FixturePath("gpt2/config.json"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->Integer("n_layer", 12, 1, 1000), 3);
  EXPECT_EQ(*config->Integer("n_inner", 144, 1, 1000), 144);  // null
  EXPECT_EQ(*config->Integer("none", 7, 1, 1000), 7);
  EXPECT_DOUBLE_EQ(*config->Number("layer_norm_epsilon", 1, 0, 1), 1e-5);
  EXPECT_DOUBLE_EQ(*config->Number("attn_pdrop", 0.1, 0, 1), 0);  // a whole number
  EXPECT_TRUE(*config->Flag("tie_word_embeddings", false));
  EXPECT_EQ(*config->Text("activation_function", ""), "gelu_new");
  EXPECT_EQ(*config->Text("architectures.0", ""), "GPT2LMHeadModel");
  EXPECT_FALSE(config->Has("n_inner"));
}

TEST(ModelConfig, RefusesInOneSentenceWithKeyAndValue) {
  testing::MemoryStorage storage;
  storage.Put("c.json", R"({"neg":-1,"big":1e30,"huge":99999999999999999999,"point":12.0,"text":"x","flag":true})");
  ModelConfig config = *ReadModelConfig(storage, "c.json");
  EXPECT_EQ(config.Integer("neg", 1, 1, 100).status().message(),
            "neg is -1 in c.json; it must be a whole number from 1 to 100");
  for (const char* key : {"neg", "big", "huge", "point", "text", "flag"}) {
    EXPECT_EQ(config.Integer(key, 1, 1, 100).status().code(), absl::StatusCode::kDataLoss) << key;
    EXPECT_EQ(config.Number(key, 1, 0, 10).status().code(), absl::StatusCode::kDataLoss) << key;
    EXPECT_EQ(config.Flag(key, false).ok(), std::string(key) == "flag");
    EXPECT_EQ(config.Text(key, "").ok(), std::string(key) == "text");
  }
  EXPECT_EQ(config.Refuse("neg", "divide n_embd").message(), "neg is -1 in c.json; it must divide n_embd");
  EXPECT_EQ(config.Refuse("neg", "divide n_embd").code(), absl::StatusCode::kInvalidArgument);
  storage.Put("long.json", absl::StrCat("{\"n\":\"", std::string(100000, 'x'), "\"}"));
  EXPECT_LT(ReadModelConfig(storage, "long.json")->Integer("n", 1, 1, 9).status().message().size(), 300U);
  EXPECT_EQ(ParseModelConfigFlag(storage, "n=-1")->Integer("n", 1, 1, 9).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Not its fallback: it was given, as something else.
TEST(ModelConfig, RefusesListsAndObjectsInPlaceOfAValue) {
  testing::MemoryStorage storage;
  for (const char* value : {"[2]", "[]", "{}", "{\"a\": 1}", "[[]]"}) {
    storage.Put("config.json", absl::StrCat("{\"n_layer\": ", value, ", \"eps\": ", value, "}"));
    auto config = ReadModelConfig(storage, "config.json");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FALSE(config->Integer("n_layer", 12, 1, 100).ok()) << value;
    EXPECT_FALSE(config->Number("eps", 1, 0, 100).ok()) << value;
    EXPECT_FALSE(config->Text("eps", "").ok()) << value;
    EXPECT_FALSE(config->Flag("eps", true).ok()) << value;
  }
}

TEST(ModelConfig, KnowsWhatNobodyAskedFor) {
  ModelConfig config = *ParseModelConfigFlag(PosixStorage(), "n_layer=2,n_emb=8");
  ASSERT_TRUE(config.Integer("n_layer", 1, 1, 9).ok());
  ASSERT_TRUE(config.Integer("n_embd", 1, 1, 9).ok());
  EXPECT_THAT(config.UnreadKeys(), ElementsAre("n_emb"));
}

TEST(ParseModelConfigFlag, ReadsPairs) {
  auto config = ParseModelConfigFlag(PosixStorage(), "n_layer=12, n_embd = 768,eps=1e-5,tie=false,act=gelu,none=null");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->Integer("n_layer", 0, 0, 100), 12);
  EXPECT_EQ(*config->Integer("n_embd", 0, 0, 1000), 768);
  EXPECT_EQ(*config->Number("eps", 0, 0, 1), 1e-5);
  EXPECT_FALSE(*config->Flag("tie", true));
  EXPECT_EQ(*config->Text("act", ""), "gelu");
  EXPECT_FALSE(config->Has("none"));
  EXPECT_TRUE(ParseModelConfigFlag(PosixStorage(), "")->values().empty());
}

TEST(ParseModelConfigFlag, RefusesBadPairs) {
  for (const char* text : {"=", "a=", "=1", "a=1,", "a=1,b", ",a=1", "a=1,a=2", "a=1,,b=2"}) {
    EXPECT_EQ(ParseModelConfigFlag(PosixStorage(), text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  auto config = *ParseModelConfigFlag(PosixStorage(), "a=nan,b=inf,c=99999999999999999999");
  EXPECT_FALSE(config.Number("a", 0, -1e300, 1e300).ok());
  EXPECT_FALSE(config.Number("b", 0, -1e300, 1e300).ok());
  EXPECT_FALSE(config.Integer("c", 0, INT64_MIN, INT64_MAX).ok());
}

TEST(ParseModelConfigFlag, TakesPaths) {
  EXPECT_TRUE(ParseModelConfigFlag(PosixStorage(), testing::FixturePath("gpt2/config.json")).ok());
  EXPECT_EQ(ParseModelConfigFlag(PosixStorage(), "/none.json").status().code(), absl::StatusCode::kDataLoss);
  testing::MemoryStorage storage;
  storage.Put("a=b/config.json", "{\"n_layer\":3}");
  EXPECT_EQ(*ParseModelConfigFlag(storage, "a=b/config.json")->Integer("n_layer", 1, 1, 9), 3);
}

}  // namespace
}  // namespace reprise
