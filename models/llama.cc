#include "models/llama.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/modules.h"
#include "models/sizes.h"

namespace reprise {
namespace {

constexpr int64_t kLargestHead = 65536;  // a table of rotations holds this many numbers a position

class LlamaNorm : public Module {
 public:
  LlamaNorm(const Module& parent, const std::string& name, const LlamaConfig& c)
      : Module(parent, name),
        epsilon_(c.rms_norm_eps),
        weight_(*this, "weight", {c.hidden_size}, Initializer::Constant(1)) {}
  Tensor Forward(BlockTrace& t, Tensor x) const { return RmsNorm(x, t.Get(weight_), epsilon_); }

 private:
  double epsilon_;
  Parameter weight_;
};

class LlamaAttention : public Module {
 public:
  LlamaAttention(const Module& parent, const LlamaConfig& c)
      : Module(parent, "self_attn"),
        heads_(c.num_attention_heads),
        key_value_heads_(c.key_value_heads()),
        documents_(c.documents),
        dropout_(c.dropout),
        rotary_(c.rotary),
        q_(*this, "q_proj", c.hidden_size, heads_ * c.head_size(), c.query_key_value_bias, c.initializer_range),
        k_(*this, "k_proj", c.hidden_size, key_value_heads_ * c.head_size(), c.query_key_value_bias,
           c.initializer_range),
        v_(*this, "v_proj", c.hidden_size, key_value_heads_ * c.head_size(), c.query_key_value_bias,
           c.initializer_range),
        o_(*this, "o_proj", heads_ * c.head_size(), c.hidden_size, c.output_bias, c.initializer_range) {}

  Tensor Forward(BlockTrace& t, Tensor x) const {
    const AttentionOptions options{.heads = heads_,
                                   .sequence_length = t.sequence_length(),
                                   .causal = true,
                                   .dropout = dropout_,
                                   .key_value_heads = key_value_heads_,
                                   .document_starts = documents_ ? t.DocumentStarts() : Tensor()};
    const Tensor q = Rotate(t, q_.Forward(t, x), heads_);
    const Tensor k = Rotate(t, k_.Forward(t, x), key_value_heads_);
    return o_.Forward(t, Attention(q, k, v_.Forward(t, x), options));
  }

 private:
  Tensor Rotate(BlockTrace& t, Tensor x, int64_t heads) const {
    RotaryOptions options = rotary_;
    options.heads = heads;
    options.sequence_length = t.sequence_length();
    return documents_ ? Rotary(x, t.Positions(), options) : Rotary(x, options);
  }

  int64_t heads_, key_value_heads_;
  bool documents_;
  double dropout_;
  RotaryOptions rotary_;
  TorchLinear q_, k_, v_, o_;
};

class LlamaMlp : public Module {
 public:
  LlamaMlp(const Module& parent, const LlamaConfig& c)
      : Module(parent, "mlp"),
        gate_(*this, "gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.initializer_range),
        up_(*this, "up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias, c.initializer_range),
        down_(*this, "down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias, c.initializer_range) {}
  Tensor Forward(BlockTrace& t, Tensor x) const {
    return down_.Forward(t, SiluMultiply(gate_.Forward(t, x), up_.Forward(t, x)));
  }

 private:
  TorchLinear gate_, up_, down_;
};

class LlamaLayer : public Block {
 public:
  LlamaLayer(const LlamaConfig& c, int64_t index)
      : Block(absl::StrCat("model.layers.", index)),
        attention_(*this, c),
        mlp_(*this, c),
        norm_1_(*this, "input_layernorm", c),
        norm_2_(*this, "post_attention_layernorm", c) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    Tensor x = boundary[0];
    x = x + attention_.Forward(t, norm_1_.Forward(t, x));
    return {x + mlp_.Forward(t, norm_2_.Forward(t, x))};
  }

 private:
  LlamaAttention attention_;
  LlamaMlp mlp_;
  LlamaNorm norm_1_, norm_2_;
};

class LlamaEmbedding : public Block {
 public:
  explicit LlamaEmbedding(const LlamaConfig& c)
      : Block("model"),
        tokens_(*this, "embed_tokens.weight", {c.vocab_size, c.hidden_size}, Initializer::Normal(c.initializer_range)) {
  }

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return {Embedding(t.Tokens(), t.Get(tokens_), t.sequence_length())};
  }
  const Parameter& token_table() const { return tokens_; }

 private:
  Parameter tokens_;
};

// The final norm belongs to "model", the product to the whole: "lm_head".
class LlamaHead : public Block {
 public:
  LlamaHead(const LlamaConfig& c, std::shared_ptr<const LlamaEmbedding> embedding)
      : Block("model"), embedding_(std::move(embedding)), norm_(*this, "norm", c) {
    if (!c.tie_word_embeddings) {
      weight_.emplace(whole_, "lm_head.weight", Shape{c.vocab_size, c.hidden_size},
                      Initializer::Normal(c.initializer_range));
    }
  }

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    const Tensor x = norm_.Forward(t, boundary[0]);
    return {LinearCrossEntropy(x, t.Get(weight_ ? *weight_ : embedding_->token_table()), t.Labels())};
  }

 private:
  std::shared_ptr<const LlamaEmbedding> embedding_;
  LlamaNorm norm_;
  Module whole_{""};
  std::optional<Parameter> weight_;
};

absl::Status CheckRotary(const RotaryOptions& rotary) {
  RETURN_IF_ERROR(CheckNumber("rope_theta", rotary.theta, 1, LlamaConfig::kLargestTheta));
  if (rotary.scaling != RotaryScaling::kLlama3) return absl::OkStatus();
  RETURN_IF_ERROR(CheckNumber("factor", rotary.factor, 1, LlamaConfig::kLargestFactor));
  RETURN_IF_ERROR(CheckNumber("low_freq_factor", rotary.low_frequency_factor, LlamaConfig::kSmallestFactor,
                              LlamaConfig::kLargestFactor));
  RETURN_IF_ERROR(CheckNumber("high_freq_factor", rotary.high_frequency_factor, LlamaConfig::kSmallestFactor,
                              LlamaConfig::kLargestFactor));
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: high_freq_factor=", rotary.high_frequency_factor,
                                                   " is not above low_freq_factor=", rotary.low_frequency_factor));
  }
  return CheckSizes({{"original_max_position_embeddings", rotary.original_length}});
}

// Of all matrices.
double ParameterCount(const LlamaConfig& c) {
  const auto width = static_cast<double>(c.hidden_size);
  const auto heads = static_cast<double>(2 * c.num_attention_heads + 2 * c.key_value_heads());
  const double layer = heads * static_cast<double>(c.head_size()) + 3 * static_cast<double>(c.intermediate_size);
  const double tables = static_cast<double>(c.vocab_size) * (c.tie_word_embeddings ? 1 : 2);
  return width * (tables + static_cast<double>(c.num_hidden_layers) * layer);
}

}  // namespace

absl::Status Validate(const LlamaConfig& c) {
  RETURN_IF_ERROR(CheckSizes({{"vocab_size", c.vocab_size},
                              {"hidden_size", c.hidden_size},
                              {"intermediate_size", c.intermediate_size},
                              {"num_hidden_layers", c.num_hidden_layers},
                              {"num_attention_heads", c.num_attention_heads},
                              {"num_key_value_heads", c.key_value_heads()},
                              {"max_position_embeddings", c.max_position_embeddings}}));
  if (c.head_dim == 0 && c.hidden_size % c.num_attention_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: num_attention_heads=", c.num_attention_heads,
                                                   " does not divide hidden_size=", c.hidden_size,
                                                   "; choose a number of heads that does, or give head_dim"));
  }
  if (c.num_attention_heads % c.key_value_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: num_key_value_heads=", c.key_value_heads(),
                                                   " does not divide num_attention_heads=", c.num_attention_heads,
                                                   "; choose a number that does"));
  }
  if (c.head_size() > kLargestHead) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: heads of size ", c.head_size(), " are beyond ",
                                                   kLargestHead, "; choose more heads or a smaller head_dim"));
  }
  RETURN_IF_ERROR(CheckParameterCount(ParameterCount(c)));
  if (c.head_size() % 2 != 0 || c.head_size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: heads of size ", c.head_size(),
                                                   " cannot rotate in pairs; choose an even head_dim"));
  }
  RETURN_IF_ERROR(CheckNumber("rms_norm_eps", c.rms_norm_eps, kSmallestEpsilon, 1));
  RETURN_IF_ERROR(CheckNumber("initializer_range", c.initializer_range, 0, kLargestDeviation));
  RETURN_IF_ERROR(CheckRotary(c.rotary));
  return CheckDropout(c.dropout);
}

Model Llama(const LlamaConfig& config) {
  Model model;
  model.name = "llama";
  model.vocabulary = config.vocab_size;
  model.maximum_sequence = config.max_position_embeddings;
  auto embedding = std::make_shared<LlamaEmbedding>(config);
  model.blocks.push_back(embedding);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    model.blocks.push_back(std::make_shared<LlamaLayer>(config, i));
  }
  model.blocks.push_back(std::make_shared<LlamaHead>(config, embedding));
  return model;
}

}  // namespace reprise
