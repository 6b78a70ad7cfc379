#include "runtime/snapshot/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(HuggingFaceCheckpoint, TiedHeadMayStandBesideOrInPlace) {
  const CheckpointOptions tied = {.tied = {{"lm_head.weight", "transformer.wte.weight"}}};
  const std::vector<ExpectedTensor> expected = {{"transformer.wte.weight", {2}}};
  testing::MemoryStorage storage;
  PutTensors(storage, "both/model.safetensors", {{"transformer.wte.weight", 1}, {"lm_head.weight", 2}});
  auto both = HuggingFaceCheckpoint::Open(storage, "both", tied);
  EXPECT_EQ(ReadFirst(**both, "transformer.wte.weight"), 1);
  EXPECT_THAT((*both)->Leftover(expected), IsEmpty());
  PutTensors(storage, "head/model.safetensors", {{"lm_head.weight", 2}});
  auto head = HuggingFaceCheckpoint::Open(storage, "head", tied);
  EXPECT_EQ(ReadFirst(**head, "transformer.wte.weight"), 2);
  EXPECT_TRUE((*head)->Check(expected).ok());
  // Not tied: a tensor of its own.
  auto untied = HuggingFaceCheckpoint::Open(storage, "both");
  EXPECT_THAT((*untied)->Leftover(expected), ElementsAre("lm_head.weight"));
  EXPECT_FALSE((*HuggingFaceCheckpoint::Open(storage, "head"))->Check(expected).ok());
}

TEST(HuggingFaceCheckpoint, ReportsMissingAndLeftover) {
  testing::MemoryStorage storage;
  PutTensors(storage, "m/model.safetensors",
             {{"h.0.attn.bias", 1},
              {"h.11.attn.masked_bias", 1},
              {"transformer.h.1.attn.bias", 1},
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
