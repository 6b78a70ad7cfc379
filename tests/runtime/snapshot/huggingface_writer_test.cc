#include "runtime/snapshot/huggingface_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "tests/tools/fault_storage.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<ExpectedTensor> kTensors = {{"b.weight", {3, 2}}, {"a.weight", {4}}, {"c.bias", {1}}, {"scalar", {}}};

std::vector<float> Values(const ExpectedTensor& tensor) {
  std::vector<float> values(
      static_cast<size_t>(std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>())));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(tensor.name[0]) + 0.5F * static_cast<float>(i);
  return values;
}

// One element at a time.
absl::Status WriteAll(Storage& storage, const HuggingFaceLayout& layout) {
  ASSIGN_OR_RETURN(auto writer, HuggingFaceWriter::Create(storage, "out", kTensors, layout));
  const std::vector<ExpectedTensor> order = writer->tensors();
  for (const ExpectedTensor& tensor : order) {
    for (const float value : Values(tensor)) RETURN_IF_ERROR(writer->Write(tensor.name, {&value, 1}));
  }
  return writer->Finish(R"({"model_type": "m", "n": 3})");
}

void ExpectWhole(Storage& storage) {
  const auto checkpoint = HuggingFaceCheckpoint::Open(storage, "out");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_TRUE((*checkpoint)->Check(kTensors).ok());
  EXPECT_THAT((*checkpoint)->Leftover(kTensors), ElementsAre());
  for (const ExpectedTensor& tensor : kTensors) {
    std::vector<float> read(Values(tensor).size());
    ASSERT_TRUE((*checkpoint)->ReadRange(tensor.name, tensor.shape, 0, absl::MakeSpan(read)).ok());
    EXPECT_EQ(read, Values(tensor)) << tensor.name;
  }
}

TEST(HuggingFaceWriter, OneFile) {
  testing::MemoryStorage storage;
  ASSERT_TRUE(WriteAll(storage, {}).ok());
  EXPECT_THAT(storage.Paths(), ElementsAre("out/config.json", "out/model.safetensors"));
  ExpectWhole(storage);
  const auto config = nlohmann::json::parse(storage.Get("out/config.json"));
  EXPECT_EQ(config, (nlohmann::json{{"model_type", "m"}, {"n", 3}, {"torch_dtype", "float32"}}));
}

// Parts hold at most 20 bytes: a.weight's 16; b.weight's 24 alone, since a tensor is never cut; and 4 + 4.
TEST(HuggingFaceWriter, PartsAndTheirIndex) {
  testing::MemoryStorage storage;
  ASSERT_TRUE(WriteAll(storage, {.part_bytes = 20}).ok());
  EXPECT_THAT(storage.Paths(), ElementsAre("out/config.json", "out/model-00001-of-00003.safetensors",
                                           "out/model-00002-of-00003.safetensors",
                                           "out/model-00003-of-00003.safetensors", "out/model.safetensors.index.json"));
  ExpectWhole(storage);
  const auto index = nlohmann::json::parse(storage.Get("out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 48);
  EXPECT_EQ(index["weight_map"]["b.weight"], "model-00002-of-00003.safetensors");
  EXPECT_EQ(index["weight_map"]["scalar"], "model-00003-of-00003.safetensors");
}

TEST(HuggingFaceWriter, HalvesTheBytesInBfloat16) {
  testing::MemoryStorage storage;
  ASSERT_TRUE(WriteAll(storage, {.type = StoredType::kBF16}).ok());
  ExpectWhole(storage);  // halves up to 127.5 are exact
  EXPECT_THAT(storage.Get("out/config.json"), HasSubstr("\"torch_dtype\": \"bfloat16\""));
  EXPECT_EQ(*WithElementType(R"({"dtype": "float16"})", StoredType::kBF16), "{\n  \"dtype\": \"bfloat16\"\n}\n");
}

TEST(HuggingFaceWriter, NeverReplacesACheckpoint) {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    testing::MemoryStorage storage;
    storage.Put(absl::StrCat("out/", name), "mine");
    const absl::Status status = WriteAll(storage, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_EQ(storage.Get(absl::StrCat("out/", name)), "mine");
  }
}

// Whichever write fails: an error, and no folder that looks whole.
TEST(HuggingFaceWriter, ADiskThatFillsUpLeavesNothingThatLooksWhole) {
  testing::MemoryStorage good;
  testing::FaultStorage counting(&good);
  ASSERT_TRUE(WriteAll(counting, {.part_bytes = 20}).ok());
  for (int64_t write = 1; write <= counting.writes(); ++write) {
    testing::MemoryStorage storage;
    testing::FaultStorage faulty(&storage);
    faulty.FailFrom(write);
    EXPECT_FALSE(WriteAll(faulty, {.part_bytes = 20}).ok()) << "write " << write;
    EXPECT_FALSE(storage.Exists("out/config.json")) << "write " << write;
  }
}

}  // namespace
}  // namespace reprise
