// train --init, from the command line: what else stands in folders that people have.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "absl/strings/str_join.h"
#include "runtime/snapshot/half.h"
#include "runtime/snapshot/safetensors.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InitProgram : public SmallJob {
 protected:
  InitProgram() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 400; ++i) tokens.push_back(static_cast<uint16_t>(i * i % 53));
    WriteU16("tokens.u16", tokens);
  }

  struct Tensor {
    std::string name;
    StoredType type;
    std::vector<int64_t> shape;
    std::vector<float> values;
    double beyond = 0;  // added to each value of an F64 tensor: what float32 cannot hold
  };
  static std::vector<Tensor> TensorsOf(const std::string& path) {
    std::vector<Tensor> tensors;
    const auto file = SafetensorsFile::Open(PosixStorage(), path);
    EXPECT_TRUE(file.ok()) << file.status();
    for (const StoredTensor& stored : file->tensors()) {
      Tensor tensor{stored.name, stored.type, stored.shape, std::vector<float>(static_cast<size_t>(stored.elements))};
      EXPECT_TRUE(file->Read(stored.name, 0, absl::MakeSpan(tensor.values)).ok());
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  // The fixture with its tensors changed.
  std::string Folder(const std::string& fixture, const std::function<void(std::vector<Tensor>*)>& change) const {
    std::filesystem::remove_all(File("model"));
    std::filesystem::create_directory(File("model"));
    std::filesystem::copy(FixturePath(fixture + "/config.json"), File("model/config.json"));
    std::vector<Tensor> tensors = TensorsOf(FixturePath(fixture + "/model.safetensors"));
    change(&tensors);
    std::vector<TensorDeclaration> declared;
    for (const Tensor& tensor : tensors) declared.push_back({tensor.name, tensor.type, tensor.shape});
    auto writer = SafetensorsWriter::Create(PosixStorage(), File("model/model.safetensors"), declared);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const StoredTensor& stored : (*writer)->tensors()) {
      for (const Tensor& tensor : tensors) {
        if (tensor.name != stored.name) continue;
        if (tensor.type == StoredType::kF64) {
          std::vector<double> wide(tensor.values.begin(), tensor.values.end());
          for (double& value : wide) value *= 1 + tensor.beyond;
          EXPECT_TRUE((*writer)
                          ->WriteBytes(stored.name, {reinterpret_cast<const std::byte*>(wide.data()), wide.size() * 8})
                          .ok());
        } else {
          EXPECT_TRUE((*writer)->Write(stored.name, tensor.values).ok());
        }
      }
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return File("model");
  }

  // One step, unless flags say what else.
  Outcome Run(int ranks, const std::string& init, const std::string& more = "") const {
    return Shell(TrainOn(
        ranks, absl::StrCat("--data=", File("tokens.u16"), " --data_format=u16 --sequence_length=8 ",
                            "--micro_batch=1 --threads=1 --init=", init, " ", more.empty() ? "--steps=1" : more)));
  }
  void Refused(int ranks, const std::string& init, const std::vector<std::string>& words) const {
    const Outcome outcome = Run(ranks, init);
    EXPECT_EQ(outcome.exit_code, 3) << outcome.errors;
    const std::vector<std::string> lines = ErrorLines(outcome);
    ASSERT_EQ(lines.size(), 1U) << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(lines[0], HasSubstr(word));
  }

  TemporaryFolder folder_of_exports_;
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(InitProgram, DoublesAreRoundedToNearestAndItIsSaidOnce) {
  // Less than half a step of float32 beyond each value: nearest gives the value back, whatever the rank that reads it.
  for (const double beyond : {0x1p-26, -0x1p-27}) {
    const std::string folder = Folder("llama_gqa", [&](std::vector<Tensor>* tensors) {
      for (Tensor& tensor : *tensors) {
        tensor.type = StoredType::kF64;
        tensor.beyond = beyond;
      }
    });
    const std::string to = absl::StrCat(folder_of_exports_.path(), "/", beyond > 0 ? "above" : "below");
    const Outcome outcome = Run(2, folder, absl::StrCat("--export=", to));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(Count(outcome.output + outcome.errors, "in F64, rounded to the nearest float32"), 1) << outcome.output;
    EXPECT_EQ(Contents(to + "/model.safetensors"), Contents(FixturePath("llama_gqa/model.safetensors")));
  }
  EXPECT_EQ(Count(Run(2, FixturePath("llama_gqa")).output, "F64"), 0);
}

// A half is a float32 exactly; a bfloat16 comes back in its own type bit for bit.
TEST_F(InitProgram, NarrowTypesAreReadExactly) {
  for (const StoredType type : {StoredType::kF16, StoredType::kBF16}) {
    const bool half = type == StoredType::kF16;
    const std::string folder = Folder("qwen2", [&](std::vector<Tensor>* tensors) {
      for (Tensor& tensor : *tensors) tensor.type = type;
    });
    const std::string to = absl::StrCat(folder_of_exports_.path(), "/", StoredTypeName(type));
    ASSERT_EQ(Run(2, folder, absl::StrCat("--export=", to, half ? "" : " --export_dtype=bf16")).exit_code, 0);
    if (!half) {
      const auto in = TensorsOf(folder + "/model.safetensors"), out = TensorsOf(to + "/model.safetensors");
      ASSERT_EQ(in.size(), out.size());
      for (size_t i = 0; i < in.size(); ++i) {
        EXPECT_EQ(out[i].type, StoredType::kBF16);
        EXPECT_EQ(in[i].values, out[i].values) << in[i].name;
      }
      continue;
    }
    const auto exact = TensorsOf(FixturePath("qwen2/model.safetensors")), out = TensorsOf(to + "/model.safetensors");
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_EQ(out[i].type, StoredType::kF32);
      for (size_t j = 0; j < exact[i].values.size(); ++j) {
        ASSERT_EQ(out[i].values[j], FloatFromHalf(HalfFromFloat(exact[i].values[j]))) << exact[i].name;
      }
    }
  }
}

TEST_F(InitProgram, BuffersAndATiedHeadAreTakenWithoutAWord) {
  const std::string gpt2 = Folder("gpt2", [](std::vector<Tensor>* tensors) {
    const auto wte = std::find_if(tensors->begin(), tensors->end(),
                                  [](const Tensor& tensor) { return tensor.name == "transformer.wte.weight"; });
    Tensor head = *wte;
    head.name = "lm_head.weight";
    tensors->push_back(head);
    tensors->push_back({"transformer.h.0.attn.bias", StoredType::kF32, {1, 1, 2, 2}, {1, 0, 1, 1}});
    tensors->push_back({"transformer.h.0.attn.masked_bias", StoredType::kF32, {}, {-1e4F}});
  });
  const Outcome first = Run(2, gpt2);
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.output, Not(HasSubstr("does not use")));
  const std::string llama = Folder("llama_gqa", [](std::vector<Tensor>* tensors) {
    tensors->push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", StoredType::kF32, {2}, {1, 0.5}});
    tensors->push_back({"model.rotary_emb.inv_freq", StoredType::kF32, {2}, {1, 0.5}});
  });
  const Outcome second = Run(1, llama);
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, Not(HasSubstr("does not use")));
}

TEST_F(InitProgram, ATiedHeadThatDiffersIsRefusedOnAnyRank) {
  const std::string folder = Folder("gpt2", [](std::vector<Tensor>* tensors) {
    const auto wte = std::find_if(tensors->begin(), tensors->end(),
                                  [](const Tensor& tensor) { return tensor.name == "transformer.wte.weight"; });
    Tensor head = *wte;
    head.name = "lm_head.weight";
    head.values.back() += 1;
    tensors->push_back(head);
  });
  for (const int ranks : {1, 2, 3}) {
    Refused(ranks, folder, {"'lm_head.weight' differs from 'transformer.wte.weight'", "at its element 3491,"});
  }
}

TEST_F(InitProgram, OnlyWhatTheIndexNamesIsRead) {
  const std::string folder = Folder("gpt2", [](std::vector<Tensor>* /*tensors*/) {});
  std::filesystem::rename(folder + "/model.safetensors", folder + "/part.safetensors");
  std::vector<std::string> entries;
  for (const Tensor& tensor : TensorsOf(folder + "/part.safetensors")) {
    entries.push_back(absl::StrCat("\"", tensor.name, "\":\"part.safetensors\""));
  }
  const auto index = [&](const std::string& more) {
    Write("model/model.safetensors.index.json",
          absl::StrCat("{\"metadata\":{},\"weight_map\":{", more, absl::StrJoin(entries, ","), "}}"));
  };
  Write("model/stale.safetensors", "not even a safetensors file");
  index("");
  EXPECT_EQ(Run(2, folder).exit_code, 0);
  index("\"other\":\"absent.safetensors\",");
  Refused(2, folder, {"model/absent.safetensors is not there"});
  index("\"other\":\"../model/part.safetensors\",");
  Refused(2, folder, {"'other'", "not the name of a file beside it"});
  // A link to where the parts are kept, as in the Hub's cache, is fine.
  std::filesystem::rename(folder + "/part.safetensors", File("blob"));
  std::filesystem::create_symlink(File("blob"), folder + "/part.safetensors");
  index("");
  EXPECT_EQ(Run(2, folder).exit_code, 0);
}

}  // namespace
}  // namespace reprise::testing
