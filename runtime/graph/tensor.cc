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

Tensor Scale(Tensor x, double factor) { return Apply("scale", {x}, Attributes().Set("factor", factor))[0]; }

Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table, int64_t sequence_length) {
  return Apply("embedding", {tokens, token_table, position_table},
               Attributes().Set("sequence_length", sequence_length))[0];
}

Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table, Tensor positions, int64_t sequence_length) {
  return Apply("embedding", {tokens, token_table, position_table, positions},
               Attributes().Set("sequence_length", sequence_length))[0];
}

Tensor Embedding(Tensor tokens, Tensor token_table, int64_t sequence_length) {
  return Apply("embedding", {tokens, token_table}, Attributes().Set("sequence_length", sequence_length))[0];
}

Tensor LayerNorm(Tensor x, Tensor gain, Tensor bias, double epsilon) {
  return Apply("layer_norm", {x, gain, bias}, Attributes().Set("epsilon", epsilon))[0];
}

Tensor RmsNorm(Tensor x, Tensor gain, double epsilon) {
  return Apply("rms_norm", {x, gain}, Attributes().Set("epsilon", epsilon))[0];
}

namespace {

Attributes LinearAttributes(WeightLayout layout) {
  return Attributes().Set("transposed", layout == WeightLayout::kOutIn ? 1 : 0);
}

Tensor BehindLinear(Tensor x, Tensor weight, Tensor y) {
  return x.trace()->behind_linear ? x.trace()->behind_linear(x, weight, y) : y;
}

}  // namespace

Tensor Linear(Tensor x, Tensor weight, Tensor bias, WeightLayout layout) {
  return BehindLinear(x, weight, Apply("linear", {x, weight, bias}, LinearAttributes(layout))[0]);
}

Tensor Linear(Tensor x, Tensor weight, WeightLayout layout) {
  return BehindLinear(x, weight, Apply("linear", {x, weight}, LinearAttributes(layout))[0]);
}

Tensor Gelu(Tensor x) { return Apply("gelu", {x})[0]; }

Tensor GeluExact(Tensor x) { return Apply("gelu_erf", {x})[0]; }

Tensor SiluMultiply(Tensor gate, Tensor up) { return Apply("silu_multiply", {gate, up})[0]; }

Tensor Dropout(Tensor x, double p, int64_t sequence_length) {
  if (p == 0 || !x.trace()->training) return x;
  return Apply("dropout", {x},
               Attributes().Set("p", p).Set("salt", x.trace()->next_salt++).Set("sequence_length", sequence_length))[0];
}

namespace {

Attributes RotaryAttributes(const RotaryOptions& options) {
  Attributes attributes = Attributes()
                              .Set("heads", options.heads)
                              .Set("sequence_length", options.sequence_length)
                              .Set("theta", options.theta)
                              .Set("scaling", options.scaling == RotaryScaling::kLlama3 ? 1 : 0)
                              .Set("inverse", 0);
  if (options.scaling == RotaryScaling::kNone) return attributes;
  return attributes.Set("factor", options.factor)
      .Set("low_frequency_factor", options.low_frequency_factor)
      .Set("high_frequency_factor", options.high_frequency_factor)
      .Set("original_length", options.original_length);
}

Attributes AttentionAttributes(Trace* trace, const AttentionOptions& options) {
  const double dropout = trace->training ? options.dropout : 0.0;
  return Attributes()
      .Set("heads", options.heads)
      .Set("sequence_length", options.sequence_length)
      .Set("causal", options.causal ? 1 : 0)
      .Set("dropout", dropout)
      .Set("salt", dropout > 0 ? trace->next_salt++ : int64_t{0});
}

Tensor ApplyAttention(std::vector<Tensor> inputs, const AttentionOptions& options, Attributes attributes) {
  if (options.document_starts.trace() != nullptr) {
    inputs.push_back(options.document_starts);
    attributes.Set("documents", 1);
  }
  return Apply("attention", inputs, std::move(attributes))[0];
}

}  // namespace

Tensor Rotary(Tensor x, const RotaryOptions& options) { return Apply("rotary", {x}, RotaryAttributes(options))[0]; }

Tensor Rotary(Tensor x, Tensor positions, const RotaryOptions& options) {
  return Apply("rotary", {x, positions}, RotaryAttributes(options))[0];
}

Tensor Attention(Tensor query_key_value, const AttentionOptions& options) {
  return ApplyAttention({query_key_value}, options, AttentionAttributes(query_key_value.trace(), options));
}

Tensor Attention(Tensor query, Tensor key, Tensor value, const AttentionOptions& options) {
  Attributes attributes = AttentionAttributes(query.trace(), options);
  attributes.Set("key_value_heads", options.key_value_heads == 0 ? options.heads : options.key_value_heads);
  return ApplyAttention({query, key, value}, options, std::move(attributes));
}

Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor labels) {
  return Apply("linear_cross_entropy", {x, weight, labels},
               Attributes().Set("gradients", x.trace()->training ? 1 : 0))[0];
}

Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor bias, Tensor labels) {
  return Apply("linear_cross_entropy", {x, weight, labels, bias},
               Attributes().Set("gradients", x.trace()->training ? 1 : 0))[0];
}

Tensor ImagePatches(Tensor pixels, const ImageOptions& options, DType dtype) {
  return Apply("image_patches", {pixels},
               Attributes()
                   .Set("channels", options.channels)
                   .Set("image_size", options.size)
                   .Set("patch_size", options.patch)
                   .Set("dtype", static_cast<int64_t>(dtype)))[0];
}

Tensor PrependRow(Tensor x, Tensor row, Tensor table) { return Apply("prepend_row", {x, row, table})[0]; }

Tensor FirstRow(Tensor x, int64_t sequence_length) {
  return Apply("first_row", {x}, Attributes().Set("sequence_length", sequence_length))[0];
}

}  // namespace reprise
