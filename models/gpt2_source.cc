// GPT-2 from a Hugging Face configuration (GPT2Config).
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/gpt2.h"
#include "models/sizes.h"
#include "models/sources.h"

namespace reprise {
namespace {

// Options of GPT2Config that change the function, with the only value that is computed here.
absl::Status RefuseOtherFunctions(ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::string activation, config.Text("activation_function", "gelu_new"));
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    return config.Refuse("activation_function", "be gelu_new");
  }
  const std::pair<const char*, bool> flags[] = {{"scale_attn_weights", true},
                                                {"scale_attn_by_inverse_layer_idx", false},
                                                {"reorder_and_upcast_attn", false},
                                                {"add_cross_attention", false},
                                                {"tie_word_embeddings", true}};
  for (const auto& [key, only] : flags) {
    ASSIGN_OR_RETURN(const bool value, config.Flag(key, only));
    if (value != only)
      return config.Refuse(key,
                           absl::StrCat("be ", only ? "true" : "false", ", which is all that this model computes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSource> BuildGpt2(ModelConfig& config, const ModelOptions& options) {
  Gpt2Config c;
  ASSIGN_OR_RETURN(c.vocab_size, config.Integer("vocab_size", c.vocab_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.n_positions, config.Integer("n_positions", c.n_positions, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.n_embd, config.Integer("n_embd", c.n_embd, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.n_layer, config.Integer("n_layer", c.n_layer, 1, kMostLayers));
  ASSIGN_OR_RETURN(c.n_head, config.Integer("n_head", c.n_head, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.n_inner, config.Integer("n_inner", 0, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.layer_norm_epsilon,
                   config.Number("layer_norm_epsilon", c.layer_norm_epsilon, kSmallestEpsilon, 1));
  ASSIGN_OR_RETURN(c.initializer_range, config.Number("initializer_range", c.initializer_range, 0, kLargestDeviation));
  RETURN_IF_ERROR(RefuseOtherFunctions(config));
  // Before the sizes are judged: a mistyped n_head would leave its default to be blamed.
  RETURN_IF_ERROR(RefuseUnknownKeys("gpt2", config));
  c.dropout = options.dropout;
  c.documents = options.documents;
  RETURN_IF_ERROR(Validate(c));
  ModelSource source{Gpt2(c), {.prefix = "transformer.", .tied = {{"lm_head.weight", "transformer.wte.weight"}}}};
  source.adapter_targets = {"c_attn"};
  return source;
}

[[maybe_unused]] const bool gpt2_registered = RegisterModel("gpt2", BuildGpt2, "GPT2LMHeadModel");

}  // namespace reprise
