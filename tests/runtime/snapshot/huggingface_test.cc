#include "runtime/snapshot/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A file whose tensors are of shape [2] and hold {value, value + 0.5}.
void PutTensors(Storage& storage, const std::string& path, const std::map<std::string, float>& tensors) {
  std::vector<TensorDeclaration> declared;
  for (const auto& [name, value] : tensors) declared.push_back({name, StoredType::kF32, {2}});
  auto writer = *SafetensorsWriter::Create(storage, path, declared);
  for (const auto& [name, value] : tensors) {
    const float values[] = {value, value + 0.5F};
    ASSERT_TRUE(writer->Write(name, values).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
}

float ReadFirst(const HuggingFaceCheckpoint& checkpoint, const std::string& name) {
  float value = -1;
  EXPECT_TRUE(checkpoint.ReadRange(name, {2}, 0, absl::MakeSpan(&value, 1)).ok()) << name;
  return value;
}

TEST(HuggingFaceCheckpoint, ReadsTheGoldenFolder) {
  auto checkpoint = HuggingFaceCheckpoint::Open(PosixStorage(), testing::FixturePath("gpt2"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<float> with(36);
  std::vector<float> without(36);
  ASSERT_TRUE((*checkpoint)->ReadRange("transformer.wte.weight", {97, 36}, 36, absl::MakeSpan(with)).ok());
  ASSERT_TRUE((*checkpoint)->ReadRange("wte.weight", {97, 36}, 36, absl::MakeSpan(without)).ok());
  EXPECT_EQ(with, without);
  EXPECT_NE(with[0], 0.0F);
  EXPECT_EQ((*checkpoint)->Find("transformer.lm_head.weight"), nullptr);

  const absl::Status shape = (*checkpoint)->ReadRange("wpe.weight", {32, 36}, 0, absl::MakeSpan(with));
  EXPECT_EQ(shape.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(shape.message()),
              AllOf(HasSubstr("'wpe.weight' has shape [16, 36] in"), HasSubstr("gpt2/model.safetensors"),
                    HasSubstr("[32, 36] in the model")));
  // As many elements, another shape: still refused.
  EXPECT_FALSE((*checkpoint)->ReadRange("wpe.weight", {36, 16}, 0, absl::MakeSpan(with)).ok());
  EXPECT_FALSE((*checkpoint)->ReadRange("wpe.weight", {16, 36}, 16 * 36 - 35, absl::MakeSpan(with)).ok());
}

TEST(HuggingFaceCheckpoint, FindsNamesWithAndWithoutPrefix) {
  testing::MemoryStorage storage;
  PutTensors(storage, "m/model.safetensors", {{"wte.weight", 1}, {"transformer.wpe.weight", 2}});
  auto checkpoint = HuggingFaceCheckpoint::Open(storage, "m");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(ReadFirst(**checkpoint, "transformer.wte.weight"), 1);
  EXPECT_EQ(ReadFirst(**checkpoint, "wte.weight"), 1);
  EXPECT_EQ(ReadFirst(**checkpoint, "transformer.wpe.weight"), 2);
  EXPECT_EQ(ReadFirst(**checkpoint, "wpe.weight"), 2);
}

TEST(HuggingFaceCheckpoint, TiedHeadMayStandBesideOrInPlaceAndMustBeTheSame) {
  const CheckpointOptions tied = {.tied = {{"lm_head.weight", "transformer.wte.weight"}}};
  const std::vector<ExpectedTensor> expected = {{"transformer.wte.weight", {2}}};
  testing::MemoryStorage storage;
  PutTensors(storage, "both/model.safetensors", {{"transformer.wte.weight", 1}, {"lm_head.weight", 1}});
  auto both = HuggingFaceCheckpoint::Open(storage, "both", tied);
  EXPECT_EQ(ReadFirst(**both, "transformer.wte.weight"), 1);
  EXPECT_THAT((*both)->Leftover(expected), IsEmpty());
  EXPECT_TRUE((*both)->CheckTied(0, 1).ok());
  PutTensors(storage, "other/model.safetensors", {{"wte.weight", 1}, {"lm_head.weight", 2}});
  const absl::Status other = (*HuggingFaceCheckpoint::Open(storage, "other", tied))->CheckTied(0, 1);
  EXPECT_EQ(other.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("other/model.safetensors: 'lm_head.weight' differs from 'wte.weight' at its element 0"),
                    HasSubstr("tie_word_embeddings")));
  PutTensors(storage, "head/model.safetensors", {{"lm_head.weight", 2}});
  EXPECT_TRUE((*HuggingFaceCheckpoint::Open(storage, "head", tied))->CheckTied(0, 1).ok());
  auto head = HuggingFaceCheckpoint::Open(storage, "head", tied);
  EXPECT_EQ(ReadFirst(**head, "transformer.wte.weight"), 2);
  EXPECT_TRUE((*head)->Check(expected).ok());
  // Not tied: a tensor of its own.
  auto untied = HuggingFaceCheckpoint::Open(storage, "both");
  EXPECT_THAT((*untied)->Leftover(expected), ElementsAre("lm_head.weight"));
  EXPECT_FALSE((*HuggingFaceCheckpoint::Open(storage, "head"))->Check(expected).ok());
}

// However many ranks share the comparison, one of them sees a difference, wherever it is.
TEST(HuggingFaceCheckpoint, OneOfTheRanksSeesThatTiedWeightsDiffer) {
  constexpr int64_t kElements = 10000;
  for (const int64_t at : {0, 4095, 4096, 8191, 8192, 9999}) {
    testing::MemoryStorage storage;
    auto writer =
        *SafetensorsWriter::Create(storage, "m/model.safetensors",
                                   {{"head", StoredType::kF32, {kElements}}, {"table", StoredType::kF32, {kElements}}});
    std::vector<float> values(kElements, 0.5F);
    ASSERT_TRUE(writer->Write("head", values).ok());
    values[static_cast<size_t>(at)] = -0.5F;
    ASSERT_TRUE(writer->Write("table", values).ok());
    ASSERT_TRUE(writer->Finish().ok());
    auto checkpoint = *HuggingFaceCheckpoint::Open(storage, "m", {.prefix = "", .tied = {{"head", "table"}}});
    for (const int64_t ranks : {1, 2, 3, 5}) {
      int64_t refused = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const absl::Status status = checkpoint->CheckTied(rank, ranks);
        if (status.ok()) continue;
        ++refused;
        EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("at its element ", at, ",")));
      }
      EXPECT_EQ(refused, 1) << at << " on " << ranks;
    }
  }
}

TEST(HuggingFaceCheckpoint, TiedWeightsOfOtherShapesDiffer) {
  testing::MemoryStorage storage;
  auto writer = *SafetensorsWriter::Create(storage, "m/model.safetensors",
                                           {{"head", StoredType::kF32, {0, 2}}, {"table", StoredType::kF32, {2, 0}}});
  ASSERT_TRUE(writer->Finish().ok());
  auto checkpoint = *HuggingFaceCheckpoint::Open(storage, "m", {.prefix = "", .tied = {{"head", "table"}}});
  EXPECT_THAT(std::string(checkpoint->CheckTied(0, 1).message()), HasSubstr("in its shape"));
}

TEST(HuggingFaceCheckpoint, NamesWhatIsRoundedAndWhatIsNoFloat) {
  testing::MemoryStorage storage;
  auto writer = *SafetensorsWriter::Create(storage, "m/model.safetensors",
                                           {{"a", StoredType::kF64, {1}},
                                            {"b", StoredType::kI64, {1}},
                                            {"c", StoredType::kBF16, {1}},
                                            {"d", StoredType::kF64, {1}}});
  for (const StoredTensor& tensor : writer->tensors()) {
    const std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    ASSERT_TRUE(writer->WriteBytes(tensor.name, bytes).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  auto checkpoint = *HuggingFaceCheckpoint::Open(storage, "m");
  EXPECT_THAT(checkpoint->Rounded({{"d", {1}}, {"c", {1}}, {"a", {1}}}), ElementsAre("a", "d"));
  EXPECT_TRUE(checkpoint->Check({{"a", {1}}, {"c", {1}}}).ok());
  const absl::Status status = checkpoint->Check({{"b", {1}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'b' is I64 in m/model.safetensors"));
}

TEST(HuggingFaceCheckpoint, ReportsMissingAndLeftover) {
  testing::MemoryStorage storage;
  PutTensors(storage, "m/model.safetensors",
             {{"h.0.attn.bias", 1},
              {"h.11.attn.masked_bias", 1},
              {"transformer.h.1.attn.bias", 1},
              {"layers.3.self_attn.rotary_emb.inv_freq", 1},
              {"rotary_emb.inv_freq", 1},
              {"h.x.attn.bias", 1},
              {"h.0.attn.c_attn.bias", 1},
              {"score.weight", 1},
              {"a", 1},
              {"transformer.a", 2}});
  auto checkpoint = *HuggingFaceCheckpoint::Open(storage, "m");
  const std::vector<ExpectedTensor> expected = {{"h.0.attn.c_attn.bias", {2}}, {"transformer.a", {2}}};
  EXPECT_TRUE(checkpoint->Check(expected).ok());
  EXPECT_THAT(checkpoint->Leftover(expected), ElementsAre("a", "h.x.attn.bias", "score.weight"));
  const absl::Status status =
      checkpoint->Check({{"a", {2, 1}}, {"b", {3}}, {"c", {3}}, {"d", {3}}, {"e", {3}}, {"score.weight", {2}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'a' has shape [2] in m/model.safetensors and [2, 1] in the model"),
                    HasSubstr("'b' of shape [3] is missing"), HasSubstr("and 2 more")));
  float value = 0;
  EXPECT_EQ(checkpoint->ReadRange("b", {3}, 0, absl::MakeSpan(&value, 1)).code(), absl::StatusCode::kDataLoss);
}

TEST(HuggingFaceCheckpoint, FollowsTheIndex) {
  testing::MemoryStorage storage;
  PutTensors(storage, "m/1.safetensors", {{"a.weight", 1}, {"not.in.index", 5}});
  PutTensors(storage, "m/2.safetensors", {{"b.weight", 2}, {"a.weight", 9}});
  storage.Put("m/stale.safetensors", "not even a safetensors file");
  storage.Put("m/model.safetensors.index.json",
              R"({"metadata":{"total_size":16},"weight_map":{"a.weight":"1.safetensors","b.weight":"2.safetensors"}})");
  auto checkpoint = HuggingFaceCheckpoint::Open(storage, "m");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(ReadFirst(**checkpoint, "a.weight"), 1);
  EXPECT_EQ(ReadFirst(**checkpoint, "b.weight"), 2);
  EXPECT_THAT((*checkpoint)->Leftover({{"a.weight", {2}}}), ElementsAre("b.weight"));
}

TEST(HuggingFaceCheckpoint, BadIndexIsRefusedByName) {
  const auto open = [](const std::string& index) {
    testing::MemoryStorage storage;
    PutTensors(storage, "m/1.safetensors", {{"a", 1}});
    storage.Put("m/model.safetensors.index.json", index);
    const absl::Status status = HuggingFaceCheckpoint::Open(storage, "m").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_THAT(open(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
              HasSubstr("m/2.safetensors is not there"));
  EXPECT_THAT(open(R"({"weight_map":{"b":"1.safetensors"}})"), HasSubstr("m/1.safetensors holds no tensor 'b'"));
  EXPECT_THAT(open(R"({"weight_map":{"a":"../m/1.safetensors"}})"), HasSubstr("not the name of a file beside it"));
  for (const char* part : {"..", ".", "", "/etc/passwd", "1.safetensors/../1.safetensors", "1.safetensors\\u0000"}) {
    EXPECT_THAT(open(absl::StrCat(R"({"weight_map":{"a":")", part, R"("}})")),
                HasSubstr("not the name of a file beside it"))
        << part;
  }
  EXPECT_THAT(open(R"({"weight_map":{"a":["1.safetensors"]}})"), HasSubstr("holds no tensor 'a.0'"));
  EXPECT_THAT(open("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"),
              HasSubstr("index.json is a Git LFS pointer"));
  EXPECT_THAT(open(R"({"weight_map":{"a":1}})"), HasSubstr("not the name of a file beside it"));
  EXPECT_THAT(open(R"({"metadata":{}})"), HasSubstr("has no weight_map"));
  EXPECT_THAT(open("[]"), HasSubstr("index.json is not an object"));
}

TEST(HuggingFaceCheckpoint, SaysWhatTheFolderLacks) {
  testing::MemoryStorage storage;
  EXPECT_THAT(std::string(HuggingFaceCheckpoint::Open(storage, "none").status().message()), HasSubstr("not a folder"));
  storage.Put("m/pytorch_model.bin", "x");
  const absl::Status status = HuggingFaceCheckpoint::Open(storage, "m").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pytorch_model.bin is not read"));
}

}  // namespace
}  // namespace reprise
