// Gradient rules of the operations in runtime/tensor/operations.
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/gradient.h"

namespace reprise {
namespace {

const bool kAdd = RegisterGradient("add", [](GradientBuilder& b, const Node& node) {
  const ValueId dy = b.Of(node.outputs[0]);
  b.Add(node.inputs[0], dy);
  b.Add(node.inputs[1], dy);
});

const bool kCopy = RegisterGradient(
    "copy", [](GradientBuilder& b, const Node& node) { b.Add(node.inputs[0], b.Of(node.outputs[0])); });
const bool kScale = RegisterGradient("scale", [](GradientBuilder& b, const Node& node) {
  b.Add(node.inputs[0], b.Emit("scale", {b.Of(node.outputs[0])}, node.attributes)[0]);
});

const bool kEmbedding = RegisterGradient("embedding", [](GradientBuilder& b, const Node& node) {
  Attributes attributes = node.attributes;
  attributes.Set("vocabulary", b.graph().type(node.inputs[1]).shape[0]);
  const bool has_positions = node.inputs.size() >= 3;
  attributes.Set("positions", has_positions ? b.graph().type(node.inputs[2]).shape[0] : int64_t{0});
  std::vector<ValueId> inputs = {node.inputs[0], b.Of(node.outputs[0])};
  if (node.inputs.size() == 4) inputs.push_back(node.inputs[3]);
  const auto out = b.Emit("embedding_gradient", std::move(inputs), attributes);
  b.Add(node.inputs[1], out[0]);
  if (has_positions) b.Add(node.inputs[2], out[1]);
});

// The kernel adds the gradient that came by the residual path, so that it is read once and rounded once.
void NormGradient(GradientBuilder& b, const Node& node, ValueId x, ValueId gain, ValueId bias, ValueId mean,
                  ValueId rstd, ValueId dy) {
  std::vector<ValueId> inputs = {x, gain, mean, rstd, dy};
  if (const ValueId residual = b.Take(x); residual != kNoValue) inputs.push_back(residual);
  const auto out = b.Emit("layer_norm_gradient", std::move(inputs), node.attributes);
  b.Add(x, out[0]);
  b.Add(gain, out[1]);
  b.Add(bias, out[2]);
}

const bool kLayerNorm = RegisterGradient("layer_norm", [](GradientBuilder& b, const Node& node) {
  NormGradient(b, node, node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[1], node.outputs[2],
               b.Of(node.outputs[0]));
});

const bool kAddLayerNorm = RegisterGradient("add_layer_norm", [](GradientBuilder& b, const Node& node) {
  const ValueId sum = node.outputs[0];
  if (b.Of(node.outputs[1]) != kNoValue) {
    NormGradient(b, node, sum, node.inputs[2], node.inputs[3], node.outputs[2], node.outputs[3], b.Of(node.outputs[1]));
  }
  b.Add(node.inputs[0], b.Of(sum));
  b.Add(node.inputs[1], b.Of(sum));
});

void RmsNormGradient(GradientBuilder& b, const Node& node, ValueId x, ValueId gain, ValueId rstd, ValueId dy) {
  std::vector<ValueId> inputs = {x, gain, rstd, dy};
  if (const ValueId residual = b.Take(x); residual != kNoValue) inputs.push_back(residual);
  const auto out = b.Emit("rms_norm_gradient", std::move(inputs), node.attributes);
  b.Add(x, out[0]);
  b.Add(gain, out[1]);
}

const bool kRmsNorm = RegisterGradient("rms_norm", [](GradientBuilder& b, const Node& node) {
  RmsNormGradient(b, node, node.inputs[0], node.inputs[1], node.outputs[1], b.Of(node.outputs[0]));
});

const bool kAddRmsNorm = RegisterGradient("add_rms_norm", [](GradientBuilder& b, const Node& node) {
  const ValueId sum = node.outputs[0];
  if (b.Of(node.outputs[1]) != kNoValue) {
    RmsNormGradient(b, node, sum, node.inputs[2], node.outputs[2], b.Of(node.outputs[1]));
  }
  b.Add(node.inputs[0], b.Of(sum));
  b.Add(node.inputs[1], b.Of(sum));
});

const bool kLinear = RegisterGradient("linear", [](GradientBuilder& b, const Node& node) {
  const ValueId dy = b.Of(node.outputs[0]);
  if (b.Needs(node.inputs[1])) {
    b.Add(node.inputs[1], b.Emit("linear_weight_gradient", {node.inputs[0], dy}, node.attributes)[0]);
  }
  if (node.inputs.size() > 2 && b.Needs(node.inputs[2])) b.Add(node.inputs[2], b.Emit("bias_gradient", {dy})[0]);
  if (b.Needs(node.inputs[0])) {
    b.Add(node.inputs[0], b.Emit("linear_input_gradient", {dy, node.inputs[1]}, node.attributes)[0]);
  }
});

// Both forms of GELU: `name` and name_gradient.
bool RegisterGelu(const std::string& name) {
  return RegisterGradient(name, [gradient = name + "_gradient"](GradientBuilder& b, const Node& node) {
    b.Add(node.inputs[0], b.Emit(gradient, {node.inputs[0], b.Of(node.outputs[0])})[0]);
  });
}

bool RegisterBiasGelu(const std::string& name) {
  return RegisterGradient(name, [gradient = name + "_gradient"](GradientBuilder& b, const Node& node) {
    const auto out = b.Emit(gradient, {node.inputs[0], node.inputs[1], b.Of(node.outputs[0])});
    b.Add(node.inputs[0], out[0]);
    b.Add(node.inputs[1], out[1]);
  });
}

const bool kGelu = RegisterGelu("gelu") && RegisterGelu("gelu_erf") &&  //
                   RegisterBiasGelu("bias_gelu") && RegisterBiasGelu("bias_gelu_erf");

const bool kSiluMultiply = RegisterGradient("silu_multiply", [](GradientBuilder& b, const Node& node) {
  const auto out = b.Emit("silu_multiply_gradient", {node.inputs[0], node.inputs[1], b.Of(node.outputs[0])});
  b.Add(node.inputs[0], out[0]);
  b.Add(node.inputs[1], out[1]);
});

// A rotation's gradient is the rotation back.
const bool kRotary = RegisterGradient("rotary", [](GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = b.Of(node.outputs[0]);
  Attributes attributes = node.attributes;
  attributes.Set("inverse", 1 - node.attributes.Int("inverse"));
  b.Add(node.inputs[0], b.Emit("rotary", std::move(inputs), attributes)[0]);
});

// Of the packed form or of q, k and v: a gradient for each input.
const bool kAttention = RegisterGradient("attention", [](GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  inputs.insert(inputs.end(), {node.outputs[0], node.outputs[1], b.Of(node.outputs[0])});
  const auto out = b.Emit("attention_gradient", std::move(inputs), node.attributes);
  for (size_t i = 0; i < out.size(); ++i) b.Add(node.inputs[i], out[i]);
});

// The mask is drawn again: nothing is saved.
const bool kDropout = RegisterGradient("dropout", [](GradientBuilder& b, const Node& node) {
  b.Add(node.inputs[0], b.Emit("dropout", {b.Of(node.outputs[0])}, node.attributes)[0]);
});

const bool kDropoutAdd = RegisterGradient("dropout_add", [](GradientBuilder& b, const Node& node) {
  const ValueId dy = b.Of(node.outputs[0]);
  b.Add(node.inputs[1], dy);
  if (b.Needs(node.inputs[0])) b.Add(node.inputs[0], b.Emit("dropout", {dy}, node.attributes)[0]);
});

// Forward and backward of a chunk of rows are one kernel: the gradients are outputs of the forward.
const bool kLinearCrossEntropy = RegisterGradient("linear_cross_entropy", [](GradientBuilder& b, const Node& node) {
  b.Add(node.inputs[0], node.outputs[1]);
  b.Add(node.inputs[1], node.outputs[2]);
  if (node.inputs.size() == 4) b.Add(node.inputs[3], node.outputs[3]);
});

const bool kPrependRow = RegisterGradient("prepend_row", [](GradientBuilder& b, const Node& node) {
  const int64_t length = b.graph().type(node.inputs[2]).rows();
  const auto out = b.Emit("prepend_row_gradient", {b.Of(node.outputs[0])}, Attributes().Set("sequence_length", length));
  for (size_t i = 0; i < out.size(); ++i) b.Add(node.inputs[i], out[i]);
});

const bool kFirstRow = RegisterGradient("first_row", [](GradientBuilder& b, const Node& node) {
  b.Add(node.inputs[0], b.Emit("first_row_gradient", {b.Of(node.outputs[0])}, node.attributes)[0]);
});

}  // namespace
}  // namespace reprise
