// Llama (Touvron et al. 2023; Llama 3, 2024) and Qwen2 as Hugging Face's LlamaForCausalLM and Qwen2ForCausalLM compute
// them: rotary positions, grouped-query attention, RMS norms, an MLP gated by SiLU, no dropout but on attention.
// Parameter names and layouts are those of the checkpoints.
//
//   RETURN_IF_ERROR(Validate(config));
//   Model model = Llama(config);
#ifndef REPRISE_MODELS_LLAMA_H_
#define REPRISE_MODELS_LLAMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/model/block.h"

namespace reprise {

struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;  // of the MLP
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: one for each head
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool query_key_value_bias = false;  // Qwen2, and Llama with attention_bias
  bool output_bias = false;           // Llama with attention_bias
  bool mlp_bias = false;
  RotaryOptions rotary = {};  // theta and scaling; heads and length are set for each use
  bool documents = false;     // rows attend within their document, and count positions from its start
  double dropout = 0;         // on attention probabilities

  // Limits of the numbers of `rotary`.
  static constexpr double kLargestTheta = 1e12, kSmallestFactor = 1e-6, kLargestFactor = 1e6;

  int64_t key_value_heads() const { return num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads; }
  int64_t head_size() const { return head_dim > 0 ? head_dim : hidden_size / num_attention_heads; }
};

// InvalidArgument where sizes are not positive or do not divide as they must, and where a number is not finite or is
// outside its limits.
absl::Status Validate(const LlamaConfig& config);

Model Llama(const LlamaConfig& config);

}  // namespace reprise

#endif  // REPRISE_MODELS_LLAMA_H_
