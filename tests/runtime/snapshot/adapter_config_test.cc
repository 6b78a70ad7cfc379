// PEFT's adapter_config.json, as PEFT 0.17 writes it, and what is refused of it.
#include "runtime/snapshot/adapter_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/fault_storage.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPeft[] = R"({
  "alpha_pattern": {}, "auto_mapping": null, "base_model_name_or_path": "gpt2", "bias": "none", "corda_config": null,
  "eva_config": null, "exclude_modules": null, "fan_in_fan_out": true, "inference_mode": true,
  "init_lora_weights": true, "layer_replication": null, "layers_pattern": null, "layers_to_transform": null,
  "loftq_config": {}, "lora_alpha": 16, "lora_bias": false, "lora_dropout": 0.0, "megatron_config": null,
  "megatron_core": "megatron.core", "modules_to_save": null, "peft_type": "LORA", "qalora_group_size": 16, "r": 8,
  "rank_pattern": {}, "revision": null, "target_modules": ["c_attn", "c_fc"], "target_parameters": null,
  "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_dora": false, "use_qalora": false,
  "use_rslora": false})";

absl::StatusOr<AdapterConfig> ReadText(const std::string& text) {
  static testing::MemoryStorage storage;
  storage.Put("folder/adapter_config.json", text);
  return ReadAdapterConfig(storage, "folder");
}

absl::StatusOr<AdapterConfig> ReadWith(const std::string& before, const std::string& after) {
  std::string text = kPeft;
  EXPECT_EQ(absl::StrReplaceAll({{before, after}}, &text), 1) << before;
  return ReadText(text);
}

TEST(AdapterConfig, ReadsWhatPeftWrites) {
  const auto config = ReadText(kPeft);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->options.rank, 8);
  EXPECT_EQ(config->options.alpha, 16);
  EXPECT_THAT(config->options.targets, ElementsAre("c_attn", "c_fc"));
  EXPECT_EQ(config->base_model, "gpt2");
}

TEST(AdapterConfig, ReadsWhatItWrites) {
  for (const double alpha : {16.0, 0.5}) {
    AdapterConfig config;
    config.options = {.rank = 3, .alpha = alpha, .targets = {"q_proj"}};
    config.base_model = "folder";
    const auto again = ReadText(ToJson(config));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->options.rank, 3);
    EXPECT_EQ(again->options.alpha, alpha);
    EXPECT_THAT(again->options.targets, ElementsAre("q_proj"));
    config.options.targets = {"all-linear"};
    EXPECT_THAT(ReadText(ToJson(config))->options.targets, ElementsAre("all-linear"));
  }
}

TEST(AdapterConfig, RefusesWhatIsNotThere) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("use_dora": false)", R"("use_dora": true)"},
      {R"("use_rslora": false)", R"("use_rslora": true)"},
      {R"("bias": "none")", R"("bias": "all")"},
      {R"("modules_to_save": null)", R"("modules_to_save": ["lm_head"])"},
      {R"("rank_pattern": {})", R"("rank_pattern": {"c_attn": 4})"},
      {R"("layers_to_transform": null)", R"("layers_to_transform": [1])"},
      {R"("layers_to_transform": null)", R"("layers_to_transform": 1)"},
      {R"("peft_type": "LORA")", R"("peft_type": "LOHA")"},
      {R"("peft_type": "LORA")", R"("peft_type": null)"},
      {R"("r": 8)", R"("r": 0)"},
      {R"("r": 8)", R"("r": 8.5)"},
      {R"("r": 8)", R"("r": 9223372036854775807)"},
      {R"("lora_alpha": 16)", R"("lora_alpha": -1)"},
      {R"("lora_alpha": 16)", R"("lora_alpha": "x")"},
      {R"("lora_alpha": 16)", R"("lora_alpha": 1e300)"},
      {R"("target_modules": ["c_attn", "c_fc"])", R"("target_modules": ".*attn")"},
      {R"("target_modules": ["c_attn", "c_fc"])", R"("target_modules": [])"},
      {R"("target_modules": ["c_attn", "c_fc"])", R"("target_modules": [7])"},
  };
  for (const auto& [before, after] : changes) {
    const absl::Status status = ReadWith(before, after).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << after;
    EXPECT_THAT(std::string(status.message()), HasSubstr("folder/adapter_config.json")) << after;
  }
  EXPECT_FALSE(ReadText("").ok());
  EXPECT_FALSE(ReadText("[]").ok());
  EXPECT_FALSE(ReadText("{}").ok());
}

}  // namespace
}  // namespace reprise
