// A model of one's own: a chain of a table, residual layers and a head. `reprise train` finds it by its name:
//
//   reprise train --plugin=libbigram.so --model=bigram --model_config=width=64 --data=text.txt --steps=100
#include "reprise/base/status_macros.h"
#include "reprise/model.h"

namespace {

using namespace reprise;

struct Sizes {
  int64_t vocabulary, width, layers;
};

struct Table : Block {
  explicit Table(const Sizes& s)
      : Block("table"), rows(*this, "rows", {s.vocabulary, s.width}, Initializer::Normal(1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>&) const override {
    return {Embedding(t.Tokens(), t.Get(rows), t.sequence_length())};
  }
  Parameter rows;
};

struct Layer : Block {
  Layer(const Sizes& s, int64_t index)
      : Block("layers." + std::to_string(index)),
        weight(*this, "weight", {s.width, s.width}, Initializer::Normal(0.1)),
        bias(*this, "bias", {s.width}, Initializer::Constant(0)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& x) const override {
    return {x[0] + Gelu(Linear(x[0], t.Get(weight), t.Get(bias)))};
  }
  Parameter weight, bias;
};

struct Head : Block {  // starts at zero: every next token is equally likely, and the first loss is ln(vocabulary)
  explicit Head(const Sizes& s)
      : Block("head"), rows(*this, "rows", {s.vocabulary, s.width}, Initializer::Constant(0)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& x) const override {
    return {LinearCrossEntropy(x[0], t.Get(rows), t.Labels())};
  }
  Parameter rows;
};

absl::StatusOr<ModelSource> Build(ModelConfig& config, const ModelOptions&) {
  Sizes s{};
  ASSIGN_OR_RETURN(s.vocabulary, config.Integer("vocab_size", /*fallback=*/256, /*minimum=*/1, /*maximum=*/1 << 20));
  ASSIGN_OR_RETURN(s.width, config.Integer("width", 32, 1, 1 << 16));
  ASSIGN_OR_RETURN(s.layers, config.Integer("layers", 2, 0, 1000));
  Model model{.name = "bigram", .blocks = {std::make_shared<Table>(s)}, .vocabulary = s.vocabulary};
  for (int64_t i = 0; i < s.layers; ++i) model.blocks.push_back(std::make_shared<Layer>(s, i));
  model.blocks.push_back(std::make_shared<Head>(s));
  return ModelSource{model};
}

REPRISE_REGISTER_MODEL("bigram", Build);
REPRISE_PLUGIN();

}  // namespace
