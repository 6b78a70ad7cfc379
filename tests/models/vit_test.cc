#include "models/vit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/registry.h"
#include "runtime/fsdp/unit.h"
#include "runtime/snapshot/read_model_config.h"
#include "runtime/train/training_job.h"
#include "tests/tools/fault_storage.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ModelSource> FromJson(const std::string& json, const ModelOptions& options = {}) {
  testing::MemoryStorage storage;
  storage.Put("config.json", json);
  auto config = ReadModelConfig(storage, "config.json");
  if (!config.ok()) return config.status();
  return BuildModel("gpt2", *config, options);
}

std::map<std::string, Shape> ParametersOf(const Model& model) {
  std::map<std::string, Shape> shapes;
  const Program program = TraceModel(model, {.sequences = 1});
  for (const Unit& unit : MakeUnits(program, 1).units) {
    for (const UnitParameter& p : unit.parameters) shapes[p.parameter->name()] = p.parameter->shape();
  }
  return shapes;
}

constexpr VitConfig kSmall{.hidden_size = 8,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 2,
                           .intermediate_size = 12,
                           .image_size = 6,
                           .patch_size = 3,
                           .num_channels = 2,
                           .num_labels = 4};

TEST(Vit, DefaultsAreThoseOfTransformers) {
  const auto source = FromJson(R"({"model_type": "vit"})");
  ASSERT_TRUE(source.ok()) << source.status();
  const Model& model = source->model;
  EXPECT_EQ(model.name, "vit");
  EXPECT_EQ(model.layer_count(), 12);
  EXPECT_EQ(model.sequence_length, 197);
  EXPECT_EQ(model.vocabulary, 0);
  ASSERT_TRUE(model.images.has_value());
  EXPECT_EQ(model.images->size, 224);
  EXPECT_EQ(model.images->channels, 3);
  EXPECT_EQ(model.images->classes, 2);
  const std::map<std::string, Shape> shapes = ParametersOf(model);
  EXPECT_EQ(shapes.size(), 4 + 12 * 16 + 4);
  EXPECT_EQ(shapes.at("vit.embeddings.position_embeddings"), (Shape{1, 197, 768}));
  EXPECT_EQ(shapes.at("vit.embeddings.patch_embeddings.projection.weight"), (Shape{768, 3, 16, 16}));
  EXPECT_EQ(shapes.at("classifier.weight"), (Shape{2, 768}));
}

TEST(Vit, ClassesAreThoseThatHaveNames) {
  const std::string names = R"("id2label": {"0": "cat", "1": "dog", "2": "cow"})";
  EXPECT_EQ(FromJson(absl::StrCat(R"({"model_type": "vit", )", names, "}"))->model.images->classes, 3);
  EXPECT_EQ(FromJson(R"({"model_type": "vit", "num_labels": 9})")->model.images->classes, 9);
  EXPECT_THAT(FromJson(absl::StrCat(R"({"model_type": "vit", "num_labels": 4, )", names, "}")).status().message(),
              HasSubstr("num_labels is 4 in config.json; it must be 3"));
}

TEST(Vit, TheFlagsImageSizeStandsInPlaceOfTheConfigurations) {
  const auto source =
      FromJson(R"({"model_type": "vit", "image_size": 32, "patch_size": 8, "more": [1]})", {.image_size = 64});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->model.images->size, 64);
  EXPECT_EQ(source->model.sequence_length, 65);
  EXPECT_THAT(source->config_json, HasSubstr("\"image_size\": 64"));
  EXPECT_THAT(source->config_json, HasSubstr("more"));
}

TEST(Vit, RefusesWhatItDoesNotCompute) {
  struct Case {
    const char* setting;
    const char* message;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  };
  const auto bad_value = absl::StatusCode::kDataLoss;  // of a file, whatever the model
  const Case wrong[] = {{R"("hidden_act": "gelu_new")", "hidden_act is \"gelu_new\" in config.json; it must be gelu"},
                        {R"("image_size": 30)", "patch_size=16 does not divide image_size=30"},
                        {R"("image_size": [224, 224])", "image_size is a list", bad_value},
                        {R"("image_size": 2147483648)", "image_size=2147483648 is above 16384"},
                        {R"("num_attention_heads": 7)", "num_attention_heads=7 does not divide hidden_size=768"},
                        {R"("num_channels": -3)", "num_channels is -3", bad_value},
                        {R"("num_labels": 0)", "num_labels is 0", bad_value}};
  for (const auto& [setting, message, code] : wrong) {
    const absl::Status status = FromJson(absl::StrCat(R"({"model_type": "vit", )", setting, "}")).status();
    EXPECT_EQ(status.code(), code) << setting;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

TEST(Vit, AJobHoldsPixelsAndALabelForEachImage) {
  const Program program = TraceModel(Vit(kSmall), {.sequences = 5, .dtype = DType::kBFloat16});
  const int64_t pixels = 5 * 2 * 6 * 6 * 4;
  EXPECT_EQ(program.data_bytes, (DataBytes{0, 5 * 4, pixels, 0, 0}));
}

// cases.md, F2: all parameters zero give every class the same probability.
struct ZeroRun {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;
};

// labels[rank][micro-batch][row]; -100: not counted.
using RankLabels = std::vector<std::vector<std::vector<int32_t>>>;

ZeroRun RunAllZero(const RankLabels& labels, DType dtype, const std::string& checkpoint) {
  JobOptions options;
  options.micro_batch = static_cast<int64_t>(labels[0][0].size());
  options.accumulation = static_cast<int>(labels[0].size());
  options.sequence_length = kSmall.sequence_length();
  options.dtype = dtype;
  options.checkpoint = checkpoint;
  ZeroRun run;
  testing::RunRanks(static_cast<int>(labels.size()), [&](Communicator& communicator) {
    auto job = TrainingJob::Create(Vit(kSmall), options, {}, communicator);
    ASSERT_TRUE(job.ok()) << job.status();
    const auto zero = [](const Parameter&, int64_t, absl::Span<float> out) {
      std::fill(out.begin(), out.end(), 0.0F);
      return absl::OkStatus();
    };
    ASSERT_TRUE((*job)->SetParameters(zero).ok());
    StepInput input;
    for (int m = 0; m < options.accumulation; ++m) {
      const Batch batch = (*job)->batch(m);
      const absl::Span<float> pixels = DataAs<float>(batch.data, DataKind::kPixels);
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 11) - 5;
      const std::vector<int32_t>& mine = labels[static_cast<size_t>(communicator.rank())][static_cast<size_t>(m)];
      std::copy(mine.begin(), mine.end(), batch.labels().begin());
      input.counted_labels += std::count_if(mine.begin(), mine.end(), [](int32_t label) { return label >= 0; });
    }
    const auto result = (*job)->Step(input);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const Parameter* parameter : (*job)->parameters()) {
      std::vector<float> gradient(static_cast<size_t>(parameter->elements()));
      const double factor = 1.0 / static_cast<double>(result->counted_labels);
      ASSERT_TRUE((*job)->ReadGradient(*parameter, factor, absl::MakeSpan(gradient)).ok());
      if (communicator.rank() == 0) run.gradients[parameter->name()] = gradient;
    }
    if (communicator.rank() == 0) run.loss = result->loss;
  });
  return run;
}

void ExpectOnlyBias(const ZeroRun& run, const std::vector<float>& bias) {
  EXPECT_NEAR(run.loss, std::log(4.0), 1e-6);
  for (const auto& [name, gradient] : run.gradients) {
    if (name == "classifier.bias") continue;
    EXPECT_THAT(gradient, ::testing::Each(0.0F)) << name;
  }
  const std::vector<float>& actual = run.gradients.at("classifier.bias");
  ASSERT_EQ(actual.size(), bias.size());
  for (size_t k = 0; k < bias.size(); ++k) EXPECT_NEAR(actual[k], bias[k], 1e-7) << k;
}

TEST(Vit, AllZeroGivesEveryClassItsShare) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const char* checkpoint : {"none", "all", "selective"}) {
      ExpectOnlyBias(RunAllZero({{{1, 1, 3, 0}}}, dtype, checkpoint), {0, -0.25F, 0.25F, 0});
    }
  }
}

TEST(Vit, LabelsThatCountUnevenlyOverRanksAndMicroBatches) {
  constexpr int32_t kNo = -100;
  const std::vector<float> bias = {-7.0F / 12, 1.0F / 12, 0.25F, 0.25F};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ExpectOnlyBias(RunAllZero({{{0, 0, 0, 0, 0}}, {{kNo, kNo, 1, kNo, kNo}}}, dtype, "all"), bias);
    const ZeroRun accumulated = RunAllZero({{{kNo, kNo, 1, kNo, kNo}, {0, 0, 0, 0, 0}}}, dtype, "all");
    ExpectOnlyBias(accumulated, bias);
    const ZeroRun together = RunAllZero({{{1, 0, 0, 0, 0, 0}}}, dtype, "all");
    EXPECT_EQ(accumulated.gradients, together.gradients);
    EXPECT_EQ(accumulated.loss, together.loss);
  }
}

}  // namespace
}  // namespace reprise
