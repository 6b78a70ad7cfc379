#include "tests/tools/threaded_model.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reprise::testing {
namespace {

constexpr int64_t kVocabulary = kThreadedVocabulary, kNarrow = 4, kWide = 6;
constexpr double kDeviation = 0.4;

using Tensors = std::vector<Tensor>;

// A block that is a function of its boundary and of its parameters: its own, then others'.
class FunctionBlock : public Block {
 public:
  using Function = std::function<Tensors(BlockTrace& trace, const Tensors& boundary, const Tensors& parameters)>;

  FunctionBlock(const std::string& name, const std::vector<Shape>& shapes, Function function,
                std::vector<std::shared_ptr<const FunctionBlock>> lenders = {})
      : Block(name), function_(std::move(function)), lenders_(std::move(lenders)) {
    for (const Shape& shape : shapes) {
      own_.push_back(
          std::make_unique<Parameter>(*this, absl::StrCat("p", own_.size()), shape, Initializer::Normal(kDeviation)));
    }
  }

  Tensors Forward(BlockTrace& trace, const Tensors& boundary) const override {
    Tensors parameters;
    for (const auto& parameter : own_) parameters.push_back(trace.Get(*parameter));
    for (const auto& lender : lenders_) parameters.push_back(trace.Get(*lender->own_.front()));
    return function_(trace, boundary, parameters);
  }

 private:
  Function function_;
  std::vector<std::unique_ptr<Parameter>> own_;
  std::vector<std::shared_ptr<const FunctionBlock>> lenders_;  // of their first parameter
};

Tensors EmbedTwice(BlockTrace& t, const Tensors& /*b*/, const Tensors& p) {
  return {Embedding(t.Tokens(), p[0], p[1], t.sequence_length()), Embedding(t.Tokens(), p[2], t.sequence_length()),
          t.Tokens()};
}
Tensors Widen(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {Gelu(Linear(b[0], p[0])) + b[1], b[1], b[2]};
}
Tensors Mix(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {b[0] + Gelu(Linear(b[0], p[0])), b[1], b[2]};
}
Tensors Swap(BlockTrace& /*t*/, const Tensors& b, const Tensors& /*p*/) { return {Gelu(b[1]) + b[0], b[0], b[2]}; }
Tensors AddSide(BlockTrace& t, const Tensors& b, const Tensors& p) {
  return {b[0] + Linear(Embedding(b[2], p[1], t.sequence_length()), p[0]), b[1], b[2]};
}
Tensors MixAndNorm(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {LayerNorm(b[0] + Gelu(Linear(b[0], p[2])), p[0], p[1], 1e-5), b[1] + b[0], b[2]};
}
Tensors NarrowAll(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {Linear(b[0], p[0]), Linear(b[1], p[1]), Gelu(Linear(b[1], p[2]))};
}
Tensors DropLast(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {b[0] + Gelu(Linear(b[1], p[0])), b[1]};
}
Tensors KeepLast(BlockTrace& /*t*/, const Tensors& b, const Tensors& p) {
  return {b[0] + Gelu(Linear(b[1], p[0])), b[1] + b[2]};
}
Tensors Loss(BlockTrace& t, const Tensors& b, const Tensors& p) {
  return {LinearCrossEntropy(b[0] + b[1], p[0], t.Labels())};
}

}  // namespace

Model ThreadedModel(const ThreadedOptions& options) {
  using Lenders = std::vector<std::shared_ptr<const FunctionBlock>>;
  const auto block = [](const char* name, const std::vector<Shape>& shapes, const FunctionBlock::Function& function,
                        Lenders lenders = {}) {
    return std::make_shared<const FunctionBlock>(name, shapes, function, std::move(lenders));
  };
  const auto embedding =
      block("embedding", {{kVocabulary, kNarrow}, {kThreadedLength, kNarrow}, {kVocabulary, kWide}}, EmbedTwice);
  const auto mix = block("mix", {{kWide, kWide}}, Mix);
  const auto own_mix = block("own_mix", {{kWide, kWide}}, Mix);
  const auto own_table = block("own_table", {{kVocabulary, kNarrow}}, EmbedTwice);
  Model model;
  model.name = "threaded";
  model.vocabulary = kVocabulary;
  model.maximum_sequence = kThreadedLength;
  model.blocks = {
      embedding,
      block("widen", {{kNarrow, kWide}}, Widen),
      mix,
      block("swap", {}, Swap),
      block("side", {{kNarrow, kWide}}, AddSide, {options.shares ? embedding : own_table}),
      block("again", {{kWide}, {kWide}}, MixAndNorm, {options.shares ? mix : own_mix}),
      block("narrow", {{kWide, kNarrow}, {kWide, kNarrow}, {kWide, kNarrow}}, NarrowAll),
      block("drop", {{kNarrow, kNarrow}}, options.ignores ? DropLast : KeepLast),
      block("head", {}, Loss, {embedding}),
  };
  return model;
}

}  // namespace reprise::testing
