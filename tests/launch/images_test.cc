// Training on images, and planning for larger ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/snapshot/safetensors.h"
#include "tests/launch/small_job.h"
#include "tests/runtime/train/idx_data.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kVit[] =
    "--model=vit --model_config=hidden_size=16,num_hidden_layers=2,num_attention_heads=2,intermediate_size=24,"
    "image_size=8,patch_size=4,num_channels=3,num_labels=4 ";

class Images : public SmallJob {
 protected:
  static constexpr int kCount = 20;

  Images() {
    std::string pixels, labels;
    for (int i = 0; i < kCount; ++i) {
      labels.push_back(static_cast<char>(i % 4));
      for (int p = 0; p < 36; ++p) pixels.push_back(static_cast<char>((i % 4) * 60 + (p * 7 + i) % 40));
    }
    EXPECT_EQ(Shell(absl::StrCat("mkdir -p ", Folder())).exit_code, 0);
    Write("data/train-images-idx3-ubyte.gz", Gzip(Idx({kCount, 6, 6}, pixels)));
    Write("data/train-labels-idx1-ubyte.gz", Gzip(Idx({kCount}, labels)));
    Write("data/t10k-images-idx3-ubyte", Idx({5, 6, 6}, pixels.substr(0, 5 * 36)));
    Write("data/t10k-labels-idx1-ubyte", Idx({5}, labels.substr(0, 5)));
  }

  std::string Folder() const { return File("data"); }
  std::string Train(const std::string& more) const {
    return absl::StrCat(kVit, "--data=", Folder(), " --threads=1 --steps=1 ", more);
  }
  void Refused(const std::string& more, int code, const std::string& part) const {
    const Outcome outcome = Shell(TrainOn(1, Train(more)));
    EXPECT_EQ(outcome.exit_code, code) << more << outcome.errors;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome)[0], HasSubstr(part));
  }
};

TEST_F(Images, AnEpochGivesTheSameNumbersOnAnyRanks) {
  std::vector<std::vector<double>> losses, validation;
  for (const int ranks : {1, 2}) {
    const std::string path = File("metrics.jsonl");
    const Outcome outcome = Shell(
        TrainOn(ranks, Train(absl::StrCat("--steps=0 --epochs=2 --learning_rate=1e-2 --micro_batch=", 8 / ranks,
                                          " --checkpoint=all --validation_data=", Folder(), " --metrics=", path))));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    losses.push_back(MetricsOf(path, "loss"));
    validation.push_back(MetricsOf(path, "validation_loss"));
  }
  ASSERT_EQ(losses[0].size(), 6U);  // 20 images, 8 a step, twice
  ASSERT_EQ(losses[1].size(), 6U);
  ASSERT_EQ(validation[0].size(), 1U);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5);
  EXPECT_NEAR(validation[0][0], validation[1][0], 1e-5);
  EXPECT_LT(losses[0][5], losses[0][0]);
}

TEST_F(Images, AreRefusedInOneSentence) {
  Refused("--micro_batch=21", 3, "holds 20 images of 6 x 6, where 1 ranks x --micro_batch=21 need 21");
  Refused("--micro_batch=2 --image_size=9", 2, "patch_size=4 does not divide image_size=9");
  Refused("--micro_batch=2 --sequence_length=7", 2, "vit has 5 rows for each sequence");
  Refused("--micro_batch=2 --data_format=text", 2, "reads images; use idx");
  Refused("--micro_batch=2 --model=gpt2 --model_config= --image_size=32", 2, "gpt2 does not");
  Write("bad-images-idx3-ubyte.gz", Gzip("").substr(0, 5));
  Refused(absl::StrCat("--micro_batch=2 --data=", File("bad-images-idx3-ubyte.gz")), 3, "bad-images-idx3-ubyte.gz");
}

TEST_F(Images, TheExportOfAnImportIsEqualAndKnowsItsPositionTable) {
  const std::string golden = FixturePath("vit");
  const std::string init = absl::StrCat("--model=gpt2 --model_config= --micro_batch=2 --init=", golden);
  const Outcome outcome = Shell(TrainOn(2, Train(absl::StrCat(init, " --steps=0 --export=", File("out")))));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  auto before = SafetensorsFile::Open(PosixStorage(), golden + "/model.safetensors");
  auto after = SafetensorsFile::Open(PosixStorage(), File("out") + "/model.safetensors");
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->tensors().size(), after->tensors().size());
  for (const StoredTensor& tensor : before->tensors()) {
    const StoredTensor* other = after->Find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape);
    std::vector<float> a(static_cast<size_t>(tensor.elements)), b(a.size());
    ASSERT_TRUE(before->Read(tensor.name, 0, absl::MakeSpan(a)).ok());
    ASSERT_TRUE(after->Read(tensor.name, 0, absl::MakeSpan(b)).ok());
    EXPECT_EQ(a, b) << tensor.name;
  }
  Refused(absl::StrCat(init, " --image_size=40"), 2, "position table");
}

// Four times the pixels, by checkpointing, in what one time takes without.
TEST_F(Images, FourTimesThePixelsInTheSameMemory) {
  const std::string model =
      "--model=vit --model_config=hidden_size=32,num_hidden_layers=12,num_attention_heads=2,intermediate_size=128,"
      "image_size=32,patch_size=4,num_labels=4 --micro_batch=4 --hardware=h100-sxm --json ";
  const auto plan = [&](const std::string& flags) {
    const Outcome outcome = Shell(absl::StrCat(ProgramPath("reprise"), " plan ", model, flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  };
  const auto budget = plan("--checkpoint=none")["peak_bytes"].get<int64_t>();
  const std::string within = absl::StrCat(" --memory_budget=", budget);
  const auto larger = plan(absl::StrCat("--checkpoint=auto --image_size=64", within))["peak_bytes"].get<int64_t>();
  EXPECT_LE(larger, budget);
  const Outcome none =
      Shell(absl::StrCat(ProgramPath("reprise"), " plan ", model, "--checkpoint=none --image_size=64", within));
  EXPECT_EQ(none.exit_code, 4);
  const Outcome most = Shell(absl::StrCat(ProgramPath("reprise"), " plan ", model, "--json=false --checkpoint=auto",
                                          within, " --maximize=image_size"));
  EXPECT_EQ(most.exit_code, 0) << most.errors;
  const std::string text = most.output.substr(most.output.find(": ") + 2);
  EXPECT_GE(std::stoi(text), 64);
  EXPECT_EQ(std::stoi(text) % 4, 0);
}

}  // namespace
}  // namespace reprise::testing
