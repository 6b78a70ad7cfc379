// GPT-2 (Radford et al. 2019) as Hugging Face's GPT2LMHeadModel computes it: learned positions, norms before attention
// and MLP, gelu_new, a head tied to the token table. Parameter names and layouts are those of its checkpoints.
//
//   RETURN_IF_ERROR(Validate(config));
//   Model model = Gpt2(config);
#ifndef REPRISE_MODELS_GPT2_H_
#define REPRISE_MODELS_GPT2_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/model/block.h"

namespace reprise {

struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // width of the MLP; 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool documents = false;  // rows attend within their document, and count positions from its start
  double dropout = 0;      // on the embedding, on attention probabilities, and before each residual

  int64_t mlp_width() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
};

// InvalidArgument where sizes are not positive or heads do not divide the width.
absl::Status Validate(const Gpt2Config& config);

Model Gpt2(const Gpt2Config& config);

}  // namespace reprise

#endif  // REPRISE_MODELS_GPT2_H_
