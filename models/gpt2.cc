#include "models/gpt2.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/modules.h"
#include "models/sizes.h"

namespace reprise {
namespace {

// "Conv1D" in the checkpoints: the weight is stored [in, out].
class Gpt2Linear : public Module {
 public:
  Gpt2Linear(const Module& parent, const std::string& name, int64_t in, int64_t out, double standard_deviation)
      : Module(parent, name),
        weight_(*this, "weight", {in, out}, Initializer::Normal(standard_deviation)),
        bias_(*this, "bias", {out}, Initializer::Constant(0)) {}
  Tensor Forward(BlockTrace& t, Tensor x) const {
    return Linear(x, t.Get(weight_), t.Get(bias_), WeightLayout::kInOut);
  }

 private:
  Parameter weight_, bias_;
};

// Projections into the residual stream start smaller, by the number of residual additions (GPT-2 paper, section 2.3).
double ResidualDeviation(const Gpt2Config& c) {
  return c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.n_layer));
}

class Gpt2Attention : public Module {
 public:
  Gpt2Attention(const Module& parent, const Gpt2Config& c)
      : Module(parent, "attn"),
        heads_(c.n_head),
        documents_(c.documents),
        dropout_(c.dropout),
        qkv_(*this, "c_attn", c.n_embd, 3 * c.n_embd, c.initializer_range),
        projection_(*this, "c_proj", c.n_embd, c.n_embd, ResidualDeviation(c)) {}
  Tensor Forward(BlockTrace& t, Tensor x) const {
    const AttentionOptions options{.heads = heads_,
                                   .sequence_length = t.sequence_length(),
                                   .causal = true,
                                   .dropout = dropout_,
                                   .document_starts = documents_ ? t.DocumentStarts() : Tensor()};
    return Dropout(projection_.Forward(t, Attention(qkv_.Forward(t, x), options)), dropout_, t.sequence_length());
  }

 private:
  int64_t heads_;
  bool documents_;
  double dropout_;
  Gpt2Linear qkv_, projection_;
};

class Gpt2Mlp : public Module {
 public:
  Gpt2Mlp(const Module& parent, const Gpt2Config& c)
      : Module(parent, "mlp"),
        dropout_(c.dropout),
        expand_(*this, "c_fc", c.n_embd, c.mlp_width(), c.initializer_range),
        projection_(*this, "c_proj", c.mlp_width(), c.n_embd, ResidualDeviation(c)) {}
  Tensor Forward(BlockTrace& t, Tensor x) const {
    return Dropout(projection_.Forward(t, Gelu(expand_.Forward(t, x))), dropout_, t.sequence_length());
  }

 private:
  double dropout_;
  Gpt2Linear expand_, projection_;
};

class Gpt2Layer : public Block {
 public:
  Gpt2Layer(const Gpt2Config& c, int64_t index)
      : Block(absl::StrCat("transformer.h.", index)),
        norm_1_(*this, "ln_1", c.n_embd, c.layer_norm_epsilon),
        attention_(*this, c),
        norm_2_(*this, "ln_2", c.n_embd, c.layer_norm_epsilon),
        mlp_(*this, c) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    Tensor x = boundary[0];
    x = x + attention_.Forward(t, norm_1_.Forward(t, x));
    return {x + mlp_.Forward(t, norm_2_.Forward(t, x))};
  }

 private:
  TorchLayerNorm norm_1_;
  Gpt2Attention attention_;
  TorchLayerNorm norm_2_;
  Gpt2Mlp mlp_;
};

class Gpt2Embedding : public Block {
 public:
  explicit Gpt2Embedding(const Gpt2Config& c)
      : Block("transformer"),
        documents_(c.documents),
        dropout_(c.dropout),
        tokens_(*this, "wte.weight", {c.vocab_size, c.n_embd}, Initializer::Normal(c.initializer_range)),
        positions_(*this, "wpe.weight", {c.n_positions, c.n_embd}, Initializer::Normal(c.initializer_range)) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    const Tensor tokens = t.Get(tokens_);
    const Tensor positions = t.Get(positions_);
    const int64_t length = t.sequence_length();
    const Tensor x = documents_ ? Embedding(t.Tokens(), tokens, positions, t.Positions(), length)
                                : Embedding(t.Tokens(), tokens, positions, length);
    return {Dropout(x, dropout_, length)};
  }
  const Parameter& token_table() const { return tokens_; }

 private:
  bool documents_;
  double dropout_;
  Parameter tokens_, positions_;
};

class Gpt2Head : public Block {
 public:
  Gpt2Head(const Gpt2Config& c, std::shared_ptr<const Gpt2Embedding> embedding)
      : Block("transformer"), embedding_(std::move(embedding)), norm_(*this, "ln_f", c.n_embd, c.layer_norm_epsilon) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(norm_.Forward(t, boundary[0]), t.Get(embedding_->token_table()), t.Labels())};
  }

 private:
  std::shared_ptr<const Gpt2Embedding> embedding_;
  TorchLayerNorm norm_;
};

}  // namespace

absl::Status Validate(const Gpt2Config& c) {
  RETURN_IF_ERROR(CheckSizes({{"vocab_size", c.vocab_size},
                              {"n_positions", c.n_positions},
                              {"n_embd", c.n_embd},
                              {"n_layer", c.n_layer},
                              {"n_head", c.n_head},
                              {"n_inner", c.mlp_width()}}));
  if (c.n_embd % c.n_head != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: n_head=", c.n_head, " does not divide n_embd=",
                                                   c.n_embd, "; choose a number of heads that does"));
  }
  const auto width = static_cast<double>(c.n_embd);
  RETURN_IF_ERROR(CheckParameterCount(
      width * (static_cast<double>(c.vocab_size) + static_cast<double>(c.n_positions) +
               static_cast<double>(c.n_layer) * (4 * width + 2 * static_cast<double>(c.mlp_width())))));
  RETURN_IF_ERROR(CheckNumber("layer_norm_epsilon", c.layer_norm_epsilon, kSmallestEpsilon, 1));
  RETURN_IF_ERROR(CheckNumber("initializer_range", c.initializer_range, 0, kLargestDeviation));
  return CheckDropout(c.dropout);
}

Model Gpt2(const Gpt2Config& config) {
  Model model;
  model.name = "gpt2";
  model.vocabulary = config.vocab_size;
  model.maximum_sequence = config.n_positions;
  auto embedding = std::make_shared<Gpt2Embedding>(config);
  model.blocks.push_back(embedding);
  for (int64_t i = 0; i < config.n_layer; ++i) model.blocks.push_back(std::make_shared<Gpt2Layer>(config, i));
  model.blocks.push_back(std::make_shared<Gpt2Head>(config, embedding));
  return model;
}

}  // namespace reprise
