// Llama and Qwen2 from a Hugging Face configuration (LlamaConfig, Qwen2Config), in the spelling of Transformers 4
// (rope_theta, rope_scaling) or 5 (rope_parameters).
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/llama.h"
#include "models/sizes.h"
#include "models/sources.h"

namespace reprise {
namespace {

// Where the settings of rotary positions stand, and how the method is called there.
struct RotaryKeys {
  std::string group;
  std::string type;
};
RotaryKeys FindRotary(const ModelConfig& config) {
  if (config.Has("rope_parameters.rope_type")) return {"rope_parameters.", "rope_parameters.rope_type"};
  if (config.Has("rope_scaling.rope_type")) return {"rope_scaling.", "rope_scaling.rope_type"};
  if (config.Has("rope_scaling.type")) return {"rope_scaling.", "rope_scaling.type"};
  return {"rope_parameters.", "rope_parameters.rope_type"};
}

absl::StatusOr<RotaryOptions> ReadRotary(ModelConfig& config, int64_t positions) {
  RotaryOptions rotary;
  const RotaryKeys keys = FindRotary(config);
  const char* theta = config.Has("rope_parameters.rope_theta") ? "rope_parameters.rope_theta" : "rope_theta";
  ASSIGN_OR_RETURN(rotary.theta, config.Number(theta, 10000, 1, LlamaConfig::kLargestTheta));
  ASSIGN_OR_RETURN(const std::string type, config.Text(keys.type, "default"));
  if (type == "default") return rotary;
  if (type != "llama3") return config.Refuse(keys.type, "be default or llama3");
  rotary.scaling = RotaryScaling::kLlama3;
  ASSIGN_OR_RETURN(rotary.factor, config.Number(keys.group + "factor", 8, 1, LlamaConfig::kLargestFactor));
  ASSIGN_OR_RETURN(
      rotary.low_frequency_factor,
      config.Number(keys.group + "low_freq_factor", 1, LlamaConfig::kSmallestFactor, LlamaConfig::kLargestFactor));
  ASSIGN_OR_RETURN(
      rotary.high_frequency_factor,
      config.Number(keys.group + "high_freq_factor", 4, LlamaConfig::kSmallestFactor, LlamaConfig::kLargestFactor));
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    return config.Refuse(keys.group + "high_freq_factor", "be above low_freq_factor");
  }
  ASSIGN_OR_RETURN(rotary.original_length,
                   config.Integer(keys.group + "original_max_position_embeddings", positions, 1, kMaximumSize));
  return rotary;
}

// Options that change the function, with the only value that is computed here.
absl::Status RefuseOtherFunctions(ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::string activation, config.Text("hidden_act", "silu"));
  if (activation != "silu") return config.Refuse("hidden_act", "be silu");
  ASSIGN_OR_RETURN(const bool sliding, config.Flag("use_sliding_window", false));
  if (sliding) return config.Refuse("use_sliding_window", "be false: every layer attends to all that came before");
  ASSIGN_OR_RETURN(const double rotated, config.Number("partial_rotary_factor", 1, 0, 1));
  if (rotated != 1) return config.Refuse("partial_rotary_factor", "be 1");
  for (const auto& [key, value] : config.values()) {
    if (!absl::StartsWith(key, "layer_types.")) continue;
    ASSIGN_OR_RETURN(const std::string type, config.Text(key, ""));
    if (type != "full_attention") return config.Refuse(key, "be full_attention");
  }
  return absl::OkStatus();
}

// What both architectures share. Their defaults differ in a few numbers.
absl::Status ReadSizes(ModelConfig& config, LlamaConfig* c) {
  ASSIGN_OR_RETURN(c->vocab_size, config.Integer("vocab_size", c->vocab_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->hidden_size, config.Integer("hidden_size", c->hidden_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->intermediate_size, config.Integer("intermediate_size", c->intermediate_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->num_hidden_layers, config.Integer("num_hidden_layers", c->num_hidden_layers, 1, kMostLayers));
  ASSIGN_OR_RETURN(c->num_attention_heads,
                   config.Integer("num_attention_heads", c->num_attention_heads, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->num_key_value_heads, config.Integer("num_key_value_heads", 0, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->head_dim, config.Integer("head_dim", 0, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->max_position_embeddings,
                   config.Integer("max_position_embeddings", c->max_position_embeddings, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c->rms_norm_eps, config.Number("rms_norm_eps", c->rms_norm_eps, kSmallestEpsilon, 1));
  ASSIGN_OR_RETURN(c->initializer_range,
                   config.Number("initializer_range", c->initializer_range, 0, kLargestDeviation));
  ASSIGN_OR_RETURN(c->tie_word_embeddings, config.Flag("tie_word_embeddings", false));
  ASSIGN_OR_RETURN(c->rotary, ReadRotary(config, c->max_position_embeddings));
  return RefuseOtherFunctions(config);
}

absl::StatusOr<ModelSource> Finish(const std::string& name, const ModelConfig& config, LlamaConfig c,
                                   const ModelOptions& options) {
  RETURN_IF_ERROR(RefuseUnknownKeys(name, config));
  c.dropout = options.dropout;
  c.documents = options.documents;
  RETURN_IF_ERROR(Validate(c));
  ModelSource source{Llama(c), {.prefix = "model."}};
  source.model.name = name;
  source.adapter_targets = {"q_proj", "v_proj"};
  if (c.tie_word_embeddings) source.checkpoint.tied = {{"lm_head.weight", "model.embed_tokens.weight"}};
  return source;
}

}  // namespace

absl::StatusOr<ModelSource> BuildLlama(ModelConfig& config, const ModelOptions& options) {
  LlamaConfig c;
  RETURN_IF_ERROR(ReadSizes(config, &c));
  ASSIGN_OR_RETURN(c.query_key_value_bias, config.Flag("attention_bias", false));
  c.output_bias = c.query_key_value_bias;
  ASSIGN_OR_RETURN(c.mlp_bias, config.Flag("mlp_bias", false));
  return Finish("llama", config, c, options);
}

absl::StatusOr<ModelSource> BuildQwen2(ModelConfig& config, const ModelOptions& options) {
  LlamaConfig c;
  c.vocab_size = 151936;
  c.intermediate_size = 22016;
  c.max_position_embeddings = 32768;
  c.query_key_value_bias = true;
  RETURN_IF_ERROR(ReadSizes(config, &c));
  return Finish("qwen2", config, c, options);
}

[[maybe_unused]] const bool llama_registered = RegisterModel("llama", BuildLlama, "LlamaForCausalLM");
[[maybe_unused]] const bool qwen2_registered = RegisterModel("qwen2", BuildQwen2, "Qwen2ForCausalLM");

}  // namespace reprise
