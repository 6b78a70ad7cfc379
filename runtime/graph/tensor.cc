#include "runtime/graph/tensor.h"

#include <utility>

#include "base/check.h"

namespace reprise {

std::vector<Tensor> Apply(const std::string& operation, const std::vector<Tensor>& inputs, Attributes attributes) {
  REPRISE_CHECK(!inputs.empty()) << operation << " has no input";
  Trace* trace = inputs.front().trace();
  std::vector<ValueId> values;
  for (const Tensor& input : inputs) {
    REPRISE_CHECK(input.trace() == trace) << operation << " mixes tensors of two traces";
    values.push_back(input.value());
  }
  std::vector<Tensor> outputs;
  for (const ValueId value : trace->graph.AddNode(operation, std::move(values), std::move(attributes))) {
    outputs.emplace_back(trace, value);
  }
  return outputs;
}

Tensor operator+(Tensor a, Tensor b) { return Apply("add", {a, b})[0]; }

Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table, int64_t sequence_length) {
  return Apply("embedding", {tokens, token_table, position_table},
               Attributes().Set("sequence_length", sequence_length))[0];
}

Tensor Embedding(Tensor tokens, Tensor token_table, int64_t sequence_length) {
  return Apply("embedding", {tokens, token_table}, Attributes().Set("sequence_length", sequence_length))[0];
}

Tensor LayerNorm(Tensor x, Tensor gain, Tensor bias, double epsilon) {
  return Apply("layer_norm", {x, gain, bias}, Attributes().Set("epsilon", epsilon))[0];
}

Tensor Linear(Tensor x, Tensor weight, Tensor bias, WeightLayout layout) {
  return Apply("linear", {x, weight, bias}, Attributes().Set("transposed", layout == WeightLayout::kOutIn ? 1 : 0))[0];
}

Tensor Linear(Tensor x, Tensor weight, WeightLayout layout) {
  return Apply("linear", {x, weight}, Attributes().Set("transposed", layout == WeightLayout::kOutIn ? 1 : 0))[0];
}

Tensor Gelu(Tensor x) { return Apply("gelu", {x})[0]; }

Tensor Dropout(Tensor x, double p, int64_t sequence_length) {
  if (p == 0 || !x.trace()->training) return x;
  return Apply("dropout", {x},
               Attributes().Set("p", p).Set("salt", x.trace()->next_salt++).Set("sequence_length", sequence_length))[0];
}

Tensor Attention(Tensor query_key_value, const AttentionOptions& options) {
  Trace* trace = query_key_value.trace();
  const double dropout = trace->training ? options.dropout : 0.0;
  return Apply("attention", {query_key_value},
               Attributes()
                   .Set("heads", options.heads)
                   .Set("sequence_length", options.sequence_length)
                   .Set("causal", options.causal ? 1 : 0)
                   .Set("dropout", dropout)
                   .Set("salt", dropout > 0 ? trace->next_salt++ : int64_t{0}))[0];
}

Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor labels) {
  return Apply("linear_cross_entropy", {x, weight, labels},
               Attributes().Set("gradients", x.trace()->training ? 1 : 0))[0];
}

}  // namespace reprise
