// Uses that are odd but right: smallest sizes, sizes that ranks do not divide, configuration files, and numbers that
// must not depend on ranks or on the order of streams.
#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "runtime/snapshot/safetensors.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

class ValidUse : public SmallJob {};

TEST_F(ValidUse, SmallestSizes) {
  EXPECT_EQ(Metrics(1, "--micro_batch=1 --sequence_length=1 --steps=2", "loss").size(), 2U);
  EXPECT_EQ(Metrics(2, "--micro_batch=1 --sequence_length=1 --steps=2 --checkpoint=sqrt", "loss").size(), 2U);
  EXPECT_EQ(Metrics(1, "--model_config=n_layer=1,n_embd=1,n_head=1,vocab_size=256,n_positions=16", "loss").size(), 1U);
}

TEST_F(ValidUse, SizesThatRanksDoNotDivide) {
  const std::string model = "--model_config=n_layer=3,n_embd=21,n_head=3,vocab_size=257,n_positions=17 ";
  for (const char* flags : {"--sharding=full --checkpoint=every:2", "--sharding=none", "--sharding=optimizer",
                            "--sharding=gradients --precision=bf16"}) {
    const std::vector<double> losses =
        Metrics(3, absl::StrCat(model, "--steps=3 --sequence_length=13 ", flags), "loss");
    ASSERT_EQ(losses.size(), 3U);
    EXPECT_NEAR(losses[0], std::log(257.0), 0.1);
  }
}

// 249 windows, 3 x 2 x 2 a step: the last of 21 steps is filled with rows that do not count.
TEST_F(ValidUse, OneEpoch) { EXPECT_EQ(Metrics(3, "--steps=0 --epochs=1 --accumulation=2", "loss").size(), 21U); }

TEST_F(ValidUse, LearningRateDoesNotDependOnRanksOrAccumulation) {
  for (const int ranks : {1, 2}) {
    for (const int accumulation : {1, 2}) {
      const std::vector<double> rates = Metrics(
          ranks,
          absl::StrCat("--steps=8 --warmup_steps=4 --learning_rate=1e-3 --decay=linear --accumulation=", accumulation),
          "learning_rate");
      const std::vector<double> expected = {2.5e-4, 5e-4, 7.5e-4, 1e-3, 7.5e-4, 5e-4, 2.5e-4, 0};
      ASSERT_EQ(rates.size(), expected.size());
      for (size_t step = 0; step < rates.size(); ++step) EXPECT_DOUBLE_EQ(rates[step], expected[step]) << step;
    }
  }
}

std::vector<double> AllNumbers(const SafetensorsFile& file) {
  std::vector<double> numbers;
  for (const StoredTensor& tensor : file.tensors()) {
    std::vector<double> values(static_cast<size_t>(tensor.elements));
    EXPECT_TRUE(file.Read(tensor.name, 0, absl::MakeSpan(values)).ok());
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

// The same six sequences on one rank and on three.
TEST_F(ValidUse, DumpedGradients) {
  std::vector<std::vector<double>> gradients;
  for (const auto& [ranks, flags] : {std::pair(1, "--micro_batch=6"),
                                     {3, "--micro_batch=2"},
                                     {3, "--micro_batch=1 --accumulation=2 --sharding=none"}}) {
    const std::string path = File("gradients.safetensors");
    const std::vector<double> norm =
        Metrics(ranks, absl::StrCat("--clip_norm=0.01 --dump_gradients=", path, " ", flags), "gradient_norm");
    ASSERT_EQ(norm.size(), 1U);
    const auto file = SafetensorsFile::Open(PosixStorage(), path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_NE(file->Find("transformer.wte.weight"), nullptr);
    EXPECT_EQ(file->Find("lm_head.weight"), nullptr);
    gradients.push_back(AllNumbers(*file));
    double square = 0;
    for (const double value : gradients.back()) square += value * value;
    EXPECT_NEAR(std::sqrt(square), norm[0], 1e-6 * norm[0]);
    ASSERT_EQ(gradients.back().size(), gradients[0].size());
    for (size_t i = 0; i < gradients[0].size(); ++i) ASSERT_NEAR(gradients.back()[i], gradients[0][i], 1e-6) << i;
  }
}

TEST_F(ValidUse, ValidationDoesNotDependOnRanks) {
  const std::string flags = absl::StrCat("--learning_rate=0 --validation_data=", File("text.txt"));
  const std::vector<double> one = Metrics(1, flags, "validation_loss");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_NEAR(one[0], std::log(256.0), 0.1);
  for (const int ranks : {2, 3}) EXPECT_EQ(Metrics(ranks, flags, "validation_loss"), one) << ranks;
  EXPECT_EQ(Metrics(2, absl::StrCat(flags, " --validation_every=2 --steps=5 --validation_windows=9"), "validation_loss")
                .size(),
            3U);
}

TEST_F(ValidUse, StreamOrderDoesNotChangeNumbers) {
  const std::string flags = "--steps=3 --checkpoint=all --offload=activations --dropout=0.1 ";
  const std::vector<double> losses = Metrics(2, flags, "loss");
  ASSERT_EQ(losses.size(), 3U);
  for (const char* order : {"--stream_order=random:7", "--stream_order=random:8"}) {
    EXPECT_EQ(Metrics(2, flags + order, "loss"), losses) << order;
    EXPECT_EQ(Metrics(1, absl::StrCat(flags, order, " --micro_batch=4"), "loss").size(), 3U);
  }
}

TEST_F(ValidUse, ConfigurationFile) {
  const std::vector<double> losses = Metrics(1, "--steps=2 --learning_rate=1e-2 --seed=5 --checkpoint=all", "loss");
  Write("run.toml", "# a run\nlearning_rate = 1e-2\nseed = 5\ncheckpoint = \"all\"\nsteps = 77\n");
  const std::string config = absl::StrCat("--config=", File("run.toml"));
  EXPECT_EQ(Metrics(1, absl::StrCat(config, " --steps=2"), "loss"), losses);
  EXPECT_NE(Metrics(1, absl::StrCat(config, " --steps=2 --seed=6"), "loss"), losses);
}

// A folder that was saved from the bare model leaves the prefix out; old ones hold the masks of attention.
TEST_F(ValidUse, FoldersWithAndWithoutPrefix) {
  WriteU16("low.bin", std::vector<uint16_t>(400, 3));
  Storage& storage = PosixStorage();
  const auto file = SafetensorsFile::Open(storage, FixturePath("gpt2/model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(Shell(absl::StrCat("mkdir ", File("bare"), " && cp ", FixturePath("gpt2/config.json"), " ", File("bare")))
                .exit_code,
            0);
  const auto renamed = [](absl::string_view name) { return std::string(name.substr(name.find('.') + 1)); };
  std::map<std::string, std::string> originals;
  std::vector<TensorDeclaration> declarations = {{"h.0.attn.masked_bias", StoredType::kF32, {}}};
  for (const StoredTensor& tensor : file->tensors()) {
    ASSERT_TRUE(absl::StartsWith(tensor.name, "transformer.")) << tensor.name;
    originals[renamed(tensor.name)] = tensor.name;
    declarations.push_back({renamed(tensor.name), StoredType::kF32, tensor.shape});
  }
  auto writer = SafetensorsWriter::Create(storage, File("bare/model.safetensors"), declarations);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const StoredTensor& tensor : (*writer)->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.elements), -1e4F);
    if (originals.count(tensor.name) > 0) {
      ASSERT_TRUE(file->Read(originals[tensor.name], 0, absl::MakeSpan(values)).ok());
    }
    ASSERT_TRUE((*writer)->Write(tensor.name, values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());

  const std::string flags = absl::StrCat("--model_config= --sequence_length=8 --data=", File("low.bin"), " --init=");
  const std::vector<double> with = Metrics(1, flags + FixturePath("gpt2"), "loss");
  ASSERT_EQ(with.size(), 1U);
  EXPECT_EQ(Metrics(1, flags + File("bare"), "loss"), with);
  EXPECT_NEAR(Metrics(3, absl::StrCat(flags, File("bare"), " --micro_batch=1"), "loss").at(0), with[0], 1e-6);
}

TEST_F(ValidUse, ThreadsAndCoresArePrinted) {
  const unsigned threads = std::thread::hardware_concurrency() + 1;
  const Outcome outcome = Shell(Train(Flags(absl::StrCat("--threads=", threads))));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat("rank 0: ", threads, " compute threads on")));
  EXPECT_THAT(outcome.output, HasSubstr("warning: "));
  EXPECT_THAT(Shell(Train(Flags(""))).output, HasSubstr("rank 0: 1 compute threads on"));
}

}  // namespace
}  // namespace reprise::testing
