// train --export, from the command line: what Transformers would open, the same whatever the number of ranks.
#include "launch/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/snapshot/safetensors.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

class ExportProgram : public SmallJob {
 protected:
  ExportProgram() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 400; ++i) tokens.push_back(static_cast<uint16_t>(i * i % 53));
    WriteU16("tokens.u16", tokens);
  }

  // From a fixture's weights, without a step.
  Outcome Run(int ranks, const std::string& init, const std::string& to, const std::string& more = "") const {
    return Shell(
        TrainOn(ranks, absl::StrCat("--data=", File("tokens.u16"), " --data_format=u16 --sequence_length=8 ",
                                    "--micro_batch=1 --threads=1 --init=", init, " --export=", File(to), " ", more)));
  }

  static void ExpectSameTensors(const std::string& path, const std::string& expected_path) {
    const auto actual = SafetensorsFile::Open(PosixStorage(), path);
    const auto expected = SafetensorsFile::Open(PosixStorage(), expected_path);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    ASSERT_EQ(actual->tensors().size(), expected->tensors().size());
    for (const StoredTensor& tensor : expected->tensors()) {
      std::vector<float> values(static_cast<size_t>(tensor.elements)), right(values.size());
      ASSERT_TRUE(actual->Read(tensor.name, 0, absl::MakeSpan(values)).ok()) << tensor.name;
      ASSERT_TRUE(expected->Read(tensor.name, 0, absl::MakeSpan(right)).ok()) << tensor.name;
      EXPECT_EQ(values, right) << tensor.name;
    }
  }
};

TEST_F(ExportProgram, GivesBackWhatItStartedFrom) {
  for (const char* name : {"gpt2", "gpt2_deep"}) {
    for (const int ranks : {1, 2, 4}) {
      const std::string to = absl::StrCat(name, ranks);
      const Outcome outcome = Run(ranks, FixturePath(name), to);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat("exported: ", File(to))));
      ExpectSameTensors(File(absl::StrCat(to, "/model.safetensors")),
                        FixturePath(absl::StrCat(name, "/model.safetensors")));
      EXPECT_EQ(Contents(File(absl::StrCat(to, "/model.safetensors"))),
                Contents(File(absl::StrCat(name, "1/model.safetensors"))));
    }
    auto config = nlohmann::json::parse(Contents(File(absl::StrCat(name, "1/config.json"))));
    auto expected = nlohmann::json::parse(Contents(FixturePath(absl::StrCat(name, "/config.json"))));
    EXPECT_EQ(config, expected) << "float32 in, float32 out";
  }
}

TEST_F(ExportProgram, InPartsAndInBfloat16) {
  const Outcome outcome = Run(2, FixturePath("gpt2"), "half", "--export_dtype=bf16 --export_part_size=20KiB");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_FALSE(PosixStorage().Exists(File("half/model.safetensors")));
  // bfloat16 in, bfloat16 out: the same bytes.
  ASSERT_EQ(Run(1, File("half"), "again", "--export_dtype=bf16 --export_part_size=20KiB").exit_code, 0);
  const auto names = PosixStorage().List(File("half"));
  ASSERT_TRUE(names.ok());
  EXPECT_GT(names->size(), 4U);
  for (const std::string& name : *names) {
    EXPECT_EQ(Contents(File("again/" + name)), Contents(File("half/" + name))) << name;
  }
}

// A model that was made from flags is opened by its own config.json.
TEST_F(ExportProgram, OfAModelFromFlags) {
  const Outcome first = Shell(TrainOn(1, Flags(absl::StrCat("--steps=2 --export=", File("made")))));
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const auto config = nlohmann::json::parse(Contents(File("made/config.json")));
  EXPECT_EQ(config["architectures"], nlohmann::json({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_embd"], 16);
  EXPECT_FALSE(config.contains("n_inner"));
  const Outcome again =
      Shell(TrainOn(1, absl::StrCat("--data=", File("text.txt"), " --sequence_length=16 --init=", File("made"),
                                    " --export=", File("more"))));
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  ExpectSameTensors(File("more/model.safetensors"), File("made/model.safetensors"));
}

TEST_F(ExportProgram, NeverReplacesACheckpoint) {
  ASSERT_EQ(Run(1, FixturePath("gpt2"), "once").exit_code, 0);
  const std::string before = Contents(File("once/model.safetensors"));
  for (const char* more : {"", "--steps=1"}) {
    const Outcome outcome = Run(2, FixturePath("gpt2"), "once", more);
    EXPECT_EQ(outcome.exit_code, 2);
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome)[0], HasSubstr("never replaced"));
  }
  EXPECT_EQ(Run(1, File("once"), "once").exit_code, 2) << "into the folder that it reads";
  EXPECT_EQ(Contents(File("once/model.safetensors")), before);
  EXPECT_EQ(Run(1, FixturePath("gpt2"), "text.txt/x").exit_code, 2);
  EXPECT_EQ(Run(1, FixturePath("gpt2"), "x", "--export_dtype=fp16").exit_code, 2);
  EXPECT_EQ(Run(1, FixturePath("gpt2"), "x", "--export_part_size=0").exit_code, 2);
}

}  // namespace
}  // namespace reprise::testing
