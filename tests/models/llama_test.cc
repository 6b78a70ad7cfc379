#include "models/llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
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

absl::StatusOr<ModelSource> FromJson(const std::string& json, const std::string& name = "gpt2") {
  testing::MemoryStorage storage;
  storage.Put("config.json", json);
  auto config = ReadModelConfig(storage, "config.json");
  if (!config.ok()) return config.status();
  return BuildModel(name, *config, {});
}

std::map<std::string, Shape> ParametersOf(const Model& model) {
  std::map<std::string, Shape> shapes;
  const Program program = TraceModel(model, {.sequences = 1, .sequence_length = 4});
  for (const Unit& unit : MakeUnits(program, 1).units) {
    for (const UnitParameter& p : unit.parameters) shapes[p.parameter->name()] = p.parameter->shape();
  }
  return shapes;
}

constexpr char kSmall[] =
    R"("vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4)";

// Transformers: LlamaConfig has one key-value head for each head and an untied head; head_dim is hidden / heads.
TEST(LlamaSource, AbsentAndNullKeysTakeTheDefaultsOfTheClass) {
  for (const char* more : {"", R"(, "num_key_value_heads": null, "head_dim": null, "rope_scaling": null)"}) {
    const auto source = FromJson(absl::StrCat(R"({"model_type": "llama", )", kSmall, more, "}"));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto shapes = ParametersOf(source->model);
    EXPECT_EQ(shapes.at("model.layers.0.self_attn.k_proj.weight"), (Shape{8, 8}));
    EXPECT_EQ(shapes.at("lm_head.weight"), (Shape{11, 8}));
    EXPECT_EQ(shapes.count("model.layers.0.self_attn.k_proj.bias"), 0U);
    EXPECT_EQ(source->model.name, "llama");
    EXPECT_EQ(source->model.maximum_sequence, 2048);
  }
}

TEST(LlamaSource, BiasesHeadSizesAndTies) {
  const auto llama = FromJson(absl::StrCat(R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true,
      "num_key_value_heads": 2, "head_dim": 6, "tie_word_embeddings": true, )",
                                           kSmall, "}"));
  ASSERT_TRUE(llama.ok()) << llama.status();
  const auto shapes = ParametersOf(llama->model);
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.q_proj.weight"), (Shape{24, 8}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.v_proj.bias"), (Shape{12}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.o_proj.bias"), (Shape{8}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.down_proj.bias"), (Shape{8}));
  EXPECT_EQ(shapes.count("lm_head.weight"), 0U);
  const auto qwen2 = FromJson(absl::StrCat(R"({"model_type": "qwen2", "use_sliding_window": false,
      "sliding_window": 4096, )",
                                           kSmall, "}"));
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  const auto qwen2_shapes = ParametersOf(qwen2->model);
  EXPECT_EQ(qwen2_shapes.at("model.layers.0.self_attn.q_proj.bias"), (Shape{8}));
  EXPECT_EQ(qwen2_shapes.count("model.layers.0.self_attn.o_proj.bias"), 0U);
}

// Every spelling of llama3's scaling means the same program.
TEST(LlamaSource, BothSpellingsOfRotaryScaling) {
  const std::string numbers =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16)";
  const auto program = [&](const std::string& rope) {
    const auto source =
        FromJson(absl::StrCat(R"({"model_type": "llama", )", kSmall, rope.empty() ? "" : ", ", rope, "}"));
    EXPECT_TRUE(source.ok()) << source.status();
    return TraceModel(source->model, {.sequences = 1, .sequence_length = 4}).ToString();
  };
  const std::string five =
      program(absl::StrCat(R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )", numbers, "}"));
  EXPECT_EQ(five,
            program(absl::StrCat(R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )", numbers, "}")));
  EXPECT_EQ(five, program(absl::StrCat(R"("rope_theta": 500000, "rope_scaling": {"type": "llama3", )", numbers, "}")));
  EXPECT_NE(five, program(R"("rope_theta": 500000.0)"));
  EXPECT_EQ(program(""), program(R"("rope_theta": 10000.0)"));
}

TEST(LlamaSource, RefusesByNameWhatItDoesNotCompute) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("hidden_act": "gelu")", "hidden_act"},
      {R"("use_sliding_window": true)", "use_sliding_window"},
      {R"("layer_types": ["full_attention", "sliding_attention"])", "layer_types.1"},
      {R"("rope_scaling": {"rope_type": "yarn", "factor": 4})", "rope_scaling.rope_type"},
      {R"("rope_scaling": {"type": "linear", "factor": 4})", "rope_scaling.type"},
      {R"("partial_rotary_factor": 0.5)", "partial_rotary_factor"},
      {R"("num_key_value_heads": 3)", "num_key_value_heads=3"},
      {R"("head_dim": 3)", "size 3"},
  };
  const std::pair<const char*, const char*> bad_values[] = {
      {R"("tie_word_embeddings": "yes")", "tie_word_embeddings"},
      {R"("rms_norm_eps": -1)", "rms_norm_eps"},
      {R"("num_key_value_heads": -2)", "num_key_value_heads"},
  };
  for (const auto& [setting, part] : cases) {
    const absl::Status status =
        FromJson(absl::StrCat(R"({"model_type": "llama", )", kSmall, ", ", setting, "}")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  for (const auto& [setting, part] : bad_values) {
    const absl::Status status =
        FromJson(absl::StrCat(R"({"model_type": "llama", )", kSmall, ", ", setting, "}")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << setting;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  const absl::Status other = FromJson(R"({"model_type": "mixtral"})").status();
  EXPECT_THAT(std::string(other.message()), HasSubstr("gpt2, llama, qwen2"));
  EXPECT_FALSE(FromJson(R"({"model_type": "qwen2"})", "llama").ok()) << "--model says otherwise";
}

// A configuration that a program fills in itself.
TEST(Llama, NumbersThatCannotBeAreRefusedByName) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* name, const std::function<void(LlamaConfig*, double)>& set, double value) {
    LlamaConfig config{.hidden_size = 8, .intermediate_size = 12, .num_hidden_layers = 1, .num_attention_heads = 2};
    config.rotary.scaling = RotaryScaling::kLlama3;
    EXPECT_TRUE(Validate(config).ok()) << Validate(config);
    set(&config, value);
    const absl::Status status = Validate(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " " << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  };
  for (const double value : {kNaN, kInfinity, -kInfinity, -1.0}) {
    refused(
        "rms_norm_eps", [](LlamaConfig* c, double v) { c->rms_norm_eps = v; }, value);
    refused(
        "initializer_range", [](LlamaConfig* c, double v) { c->initializer_range = v; }, value);
    refused(
        "rope_theta", [](LlamaConfig* c, double v) { c->rotary.theta = v; }, value);
    refused(
        "factor", [](LlamaConfig* c, double v) { c->rotary.factor = v; }, value);
    refused(
        "low_freq_factor", [](LlamaConfig* c, double v) { c->rotary.low_frequency_factor = v; }, value);
    refused(
        "high_freq_factor", [](LlamaConfig* c, double v) { c->rotary.high_frequency_factor = v; }, value);
    refused(
        "dropout", [](LlamaConfig* c, double v) { c->dropout = v; }, value);
  }
  refused(
      "rms_norm_eps", [](LlamaConfig* c, double v) { c->rms_norm_eps = v; }, 0);
  refused(
      "rope_theta", [](LlamaConfig* c, double v) { c->rotary.theta = v; }, 0);
  refused(
      "high_freq_factor", [](LlamaConfig* c, double v) { c->rotary.high_frequency_factor = v; }, 1);
  refused(
      "original_max_position_embeddings",
      [](LlamaConfig* c, double v) { c->rotary.original_length = static_cast<int64_t>(v); }, 0);
}

// Untied, embedding 1, final norm 1, the rest 0: every row's normed state is 1 / sqrt(1 + eps), logits are
// 0, so the loss is ln V and the head's gradient (1/V - share) / sqrt(1 + eps).
TEST(Llama, LossAndGradientInClosedForm) {
  constexpr int64_t kVocabulary = 11;
  LlamaConfig config{.vocab_size = kVocabulary,
                     .hidden_size = 8,
                     .intermediate_size = 12,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .max_position_embeddings = 16,
                     .rms_norm_eps = 1e-5};
  const std::vector<int32_t> labels = {3, 3, 0, -100, 10, 3};
  for (const int ranks : {1, 2}) {
    testing::RunRanks(ranks, [&](Communicator& communicator) {
      JobOptions options;
      options.micro_batch = 2;
      options.sequence_length = 3;
      const auto job = TrainingJob::Create(Llama(config), options, {}, communicator);
      ASSERT_TRUE(job.ok()) << job.status();
      const auto set = [](const Parameter& p, int64_t, absl::Span<float> out) {
        const bool one = p.name() == "model.embed_tokens.weight" || p.name() == "model.norm.weight";
        std::fill(out.begin(), out.end(), one ? 1.0F : 0.0F);
        return absl::OkStatus();
      };
      ASSERT_TRUE((*job)->SetParameters(set).ok());
      for (size_t i = 0; i < labels.size(); ++i) {
        (*job)->tokens(0)[i] = static_cast<int32_t>(i);
        (*job)->labels(0)[i] = labels[i];
      }
      const auto result = (*job)->Step({.seed = 1, .step = 0, .learning_rate = 0, .counted_labels = 5});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_NEAR(result->loss, std::log(11.0), 1e-6);
      for (const Parameter* p : (*job)->parameters()) {
        std::vector<float> gradient(static_cast<size_t>(p->elements()));
        ASSERT_TRUE((*job)->ReadGradient(*p, 1.0 / (5 * ranks), absl::MakeSpan(gradient)).ok());
        for (size_t i = 0; i < gradient.size(); ++i) {
          const size_t row = i / 8;
          const double share = row == 3 ? 0.6 : row == 0 || row == 10 ? 0.2 : 0;
          const double expected = p->name() == "lm_head.weight" ? (1.0 / 11 - share) * 0.999995 : 0;
          EXPECT_NEAR(gradient[i], expected, 1e-7) << p->name() << " " << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace reprise
