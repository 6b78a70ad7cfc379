// Differentiation: extends a block's graph by its backward. Each operation has a gradient rule, a function that appends
// the nodes of its gradients:
//
//   const bool registered = RegisterGradient("add", [](GradientBuilder& b, const Node& node) {
//     b.Add(node.inputs[0], b.Of(node.outputs[0]));
//     b.Add(node.inputs[1], b.Of(node.outputs[0]));
//   });
#ifndef REPRISE_RUNTIME_GRAPH_GRADIENT_H_
#define REPRISE_RUNTIME_GRAPH_GRADIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace reprise {

// A block's forward with its backward behind it.
struct DifferentiatedGraph {
  Graph graph;
  int32_t forward_nodes = 0;                 // nodes [0, forward_nodes) are the forward
  std::vector<ValueId> boundary_gradients;   // by boundary index; kNoValue: none flows there
  std::vector<ValueId> parameter_gradients;  // by parameter index; float32; kNoValue: no gradient
};

class GradientBuilder {
 public:
  // `needs`: by value, whether its gradient is wanted.
  GradientBuilder(Graph* graph, std::vector<bool> needs);

  Graph& graph() { return *graph_; }
  // Whether a gradient of `value` is wanted: it leads to a parameter or to the block before.
  bool Needs(ValueId value) const { return needs_[static_cast<size_t>(value)]; }
  // The whole gradient of an output of the node at hand; kNoValue if nothing depends on it.
  ValueId Of(ValueId output) const { return gradient_[static_cast<size_t>(output)]; }
  // Adds a contribution to the gradient of `input`; ignored where none is wanted.
  void Add(ValueId input, ValueId gradient);
  // Takes the gradient gathered so far for `input` away, for a rule whose kernel adds to it; kNoValue if none yet.
  ValueId Take(ValueId input);
  // Appends a node; returns its outputs.
  std::vector<ValueId> Emit(const std::string& operation, std::vector<ValueId> inputs, Attributes attributes = {});

 private:
  Graph* graph_;
  std::vector<bool> needs_;
  std::vector<ValueId> gradient_;
};

using GradientRule = std::function<void(GradientBuilder& builder, const Node& node)>;

// At namespace scope of a .cc file. Returns as RegisterOperation does.
bool RegisterGradient(const std::string& operation, GradientRule rule);

// Appends the backward of `forward`. Gradients of the outputs are new values of role kGradient, except those of a loss
// (f64[1]), whose gradient is one and stands nowhere, and of integers, which have none. `trained`: which parameters
// want a gradient; empty: all.
DifferentiatedGraph Differentiate(const Graph& forward, bool boundary_needs_gradient, std::vector<bool> trained = {});

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_GRADIENT_H_
