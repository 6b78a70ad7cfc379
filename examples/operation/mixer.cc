// A model that uses the operation: a table, layers with a hidden width, a head that starts at zero.
//
//   reprise train --plugin=libmixer.so --model=mixer --model_config=layers=4 --data=text.txt --steps=100
#include <memory>
#include <string>

#include "reprise/base/status_macros.h"
#include "reprise/model.h"
#include "squared_relu.h"

using namespace reprise;

namespace {

class Table : public Block {
 public:
  Table(int64_t vocabulary, int64_t width)
      : Block("table"), rows_(*this, "rows", {vocabulary, width}, Initializer::Normal(1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return {Embedding(t.Tokens(), t.Get(rows_), t.sequence_length())};
  }

 private:
  Parameter rows_;
};

class Layer : public Block {
 public:
  Layer(int64_t width, int64_t index)
      : Block("layers." + std::to_string(index)),
        expand_(*this, "expand", {width, 2 * width}, Initializer::Normal(0.1)),
        project_(*this, "project", {2 * width, width}, Initializer::Normal(0.1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    const Tensor hidden = SquaredRelu(Linear(boundary[0], t.Get(expand_)));
    return {boundary[0] + Linear(hidden, t.Get(project_))};
  }

 private:
  Parameter expand_, project_;
};

class Head : public Block {
 public:
  Head(int64_t vocabulary, int64_t width)
      : Block("head"), rows_(*this, "rows", {vocabulary, width}, Initializer::Constant(0)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(rows_), t.Labels())};
  }

 private:
  Parameter rows_;
};

absl::StatusOr<ModelSource> BuildMixer(ModelConfig& config, const ModelOptions& /*options*/) {
  ASSIGN_OR_RETURN(const int64_t vocabulary, config.Integer("vocab_size", /*fallback=*/256, 1, 1 << 20));
  ASSIGN_OR_RETURN(const int64_t width, config.Integer("width", 32, 1, 1 << 16));
  ASSIGN_OR_RETURN(const int64_t layers, config.Integer("layers", 2, 0, 1000));
  Model model{.name = "mixer", .vocabulary = vocabulary};
  model.blocks.push_back(std::make_shared<Table>(vocabulary, width));
  for (int64_t i = 0; i < layers; ++i) model.blocks.push_back(std::make_shared<Layer>(width, i));
  model.blocks.push_back(std::make_shared<Head>(vocabulary, width));
  return ModelSource{model};
}

}  // namespace

REPRISE_REGISTER_MODEL("mixer", BuildMixer);
REPRISE_PLUGIN();
