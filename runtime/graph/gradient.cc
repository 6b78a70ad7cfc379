#include "runtime/graph/gradient.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/registration.h"

namespace reprise {
namespace {

std::map<std::string, GradientRule>& Rules() {
  static auto* rules = new std::map<std::string, GradientRule>();
  return *rules;
}

bool IsInteger(const TensorType& type) { return type.dtype == DType::kInt32; }

bool IsLoss(const TensorType& type) { return type.dtype == DType::kFloat64 && type.elements() == 1; }

// Marks what a gradient flows to: wanted inputs and all that is computed from them, but no integers.
std::vector<bool> MarkNeeds(const Graph& graph, bool boundary_needs_gradient, const std::vector<bool>& trained) {
  std::vector<bool> needs(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role == ValueRole::kBoundary) needs[i] = boundary_needs_gradient && !IsInteger(value.type);
    if (value.role == ValueRole::kParameter) {
      needs[i] = trained.empty() || trained[static_cast<size_t>(value.index)];
    }
  }
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return needs[static_cast<size_t>(input)]; });
    for (const ValueId output : node.outputs) {
      needs[static_cast<size_t>(output)] = any && !IsInteger(graph.type(output));
    }
  }
  return needs;
}

std::vector<ValueId> GradientsOf(const Graph& graph, const GradientBuilder& builder, ValueRole role) {
  std::vector<ValueId> gradients;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role != role) continue;
    const size_t index = static_cast<size_t>(value.index);
    if (gradients.size() <= index) gradients.resize(index + 1, kNoValue);
    gradients[index] = builder.Of(static_cast<ValueId>(i));
  }
  return gradients;
}

}  // namespace

GradientBuilder::GradientBuilder(Graph* graph, std::vector<bool> needs)
    : graph_(graph), needs_(std::move(needs)), gradient_(graph->values.size(), kNoValue) {
  needs_.resize(graph->values.size(), false);
}

void GradientBuilder::Add(ValueId input, ValueId gradient) {
  if (!Needs(input) || gradient == kNoValue) return;
  const ValueId before = gradient_[static_cast<size_t>(input)];
  // Emit makes room for the sum's own gradient: nothing may refer into gradient_ meanwhile.
  const ValueId sum = before == kNoValue ? gradient : Emit("add", {before, gradient})[0];
  gradient_[static_cast<size_t>(input)] = sum;
}

ValueId GradientBuilder::Take(ValueId input) { return std::exchange(gradient_[static_cast<size_t>(input)], kNoValue); }

std::vector<ValueId> GradientBuilder::Emit(const std::string& operation, std::vector<ValueId> inputs,
                                           Attributes attributes) {
  std::vector<ValueId> outputs = graph_->AddNode(operation, std::move(inputs), std::move(attributes));
  needs_.resize(graph_->values.size(), false);
  gradient_.resize(graph_->values.size(), kNoValue);
  return outputs;
}

bool RegisterGradient(const std::string& operation, GradientRule rule) {
  return AcceptRegistration(Rules().emplace(operation, std::move(rule)).second, "the gradient rule of " + operation);
}

DifferentiatedGraph Differentiate(const Graph& forward, bool boundary_needs_gradient, std::vector<bool> trained) {
  DifferentiatedGraph result;
  result.graph = forward;
  result.forward_nodes = static_cast<int32_t>(forward.nodes.size());
  Graph& graph = result.graph;
  const std::vector<bool> needs = MarkNeeds(graph, boundary_needs_gradient, trained);
  std::vector<std::pair<ValueId, ValueId>> seeds;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId output = graph.outputs[i];
    if (IsLoss(graph.type(output)) || IsInteger(graph.type(output))) continue;
    seeds.emplace_back(output, graph.AddValue(graph.type(output), ValueRole::kGradient, static_cast<int32_t>(i)));
  }
  GradientBuilder builder(&graph, needs);
  for (const auto& [output, seed] : seeds) builder.Add(output, seed);
  for (int32_t i = result.forward_nodes - 1; i >= 0; --i) {
    const Node node = graph.nodes[static_cast<size_t>(i)];  // a copy: rules append nodes
    const bool wanted =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return builder.Needs(v); });
    // A loss has a gradient that stands nowhere. What nobody reads has none.
    const bool flows = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      const bool is_output = std::find(graph.outputs.begin(), graph.outputs.end(), v) != graph.outputs.end();
      return builder.Of(v) != kNoValue || (is_output && IsLoss(graph.type(v)));
    });
    if (!wanted || !flows) continue;
    const auto rule = Rules().find(node.operation);
    REPRISE_CHECK(rule != Rules().end()) << "operation " << node.operation << " has no gradient rule";
    rule->second(builder, node);
  }
  result.boundary_gradients = GradientsOf(graph, builder, ValueRole::kBoundary);
  result.parameter_gradients = GradientsOf(graph, builder, ValueRole::kParameter);
  return result;
}

}  // namespace reprise
