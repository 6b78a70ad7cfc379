#include "tests/tools/chain_model.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reprise::testing {
namespace {

constexpr double kDeviation = 0.3;

class ChainEmbedding : public Block {
 public:
  explicit ChainEmbedding(int64_t width)
      : Block("embedding"),
        tokens_(*this, "tokens", {kChainVocabulary, width}, Initializer::Normal(kDeviation)),
        positions_(*this, "positions", {kChainLongest, width}, Initializer::Normal(kDeviation)) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return {Embedding(t.Tokens(), t.Get(tokens_), t.Get(positions_), t.sequence_length())};
  }

 private:
  Parameter tokens_, positions_;
};

// in -> hidden -> ... -> hidden -> out, GELU between.
class ChainLayer : public Block {
 public:
  ChainLayer(const std::string& name, int64_t in, int64_t hidden, int64_t products, int64_t out) : Block(name) {
    int64_t width = in;
    for (int64_t i = 0; i < products; ++i) {
      const int64_t next = i + 1 < products ? hidden : out;
      weights_.push_back(std::make_unique<Parameter>(*this, absl::StrCat("weight_", i), Shape{width, next},
                                                     Initializer::Normal(kDeviation)));
      width = next;
    }
  }

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    Tensor x = boundary[0];
    for (const auto& weight : weights_) x = Gelu(Linear(x, t.Get(*weight)));
    return {x};
  }

 private:
  std::vector<std::unique_ptr<Parameter>> weights_;
};

class ChainHead : public Block {
 public:
  explicit ChainHead(int64_t width)
      : Block("head"), weight_(*this, "weight", {kChainVocabulary, width}, Initializer::Normal(kDeviation)) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(weight_), t.Labels())};
  }

 private:
  Parameter weight_;
};

}  // namespace

Model UnequalChain(int layers, uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Model model;
  model.name = "chain";
  model.vocabulary = kChainVocabulary;
  model.maximum_sequence = kChainLongest;
  int64_t width = draw(3, 80);
  model.blocks.push_back(std::make_shared<ChainEmbedding>(width));
  for (int i = 0; i < layers; ++i) {
    const int64_t out = draw(3, 80);
    model.blocks.push_back(
        std::make_shared<ChainLayer>(absl::StrCat("layer_", i), width, draw(3, 200), draw(1, 4), out));
    width = out;
  }
  model.blocks.push_back(std::make_shared<ChainHead>(width));
  return model;
}

}  // namespace reprise::testing
