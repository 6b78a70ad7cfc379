#include "runtime/graph/fusion.h"

#include <utility>
#include <vector>

namespace reprise {
namespace {

// Rewrites node by node into a new graph, looking back from each node to the producers it can be joined with.
class Fuser {
 public:
  explicit Fuser(const Graph& from) : from_(from), uses_(from.values.size(), 0), mapped_(from.values.size(), kNoValue) {
    for (const Node& node : from.nodes) {
      for (const ValueId input : node.inputs) ++uses_[Index(input)];
    }
    for (const ValueId output : from.outputs) ++uses_[Index(output)];
  }

  Graph Run() {
    for (size_t i = 0; i < from_.values.size(); ++i) {
      const Value& value = from_.values[i];
      if (value.role != ValueRole::kComputed) mapped_[i] = to_.AddValue(value.type, value.role, value.index);
    }
    const std::vector<bool> absorbed = Absorbed();
    for (size_t i = 0; i < from_.nodes.size(); ++i) {
      if (!absorbed[i]) Emit(from_.nodes[i]);
    }
    for (const ValueId output : from_.outputs) to_.outputs.push_back(mapped_[Index(output)]);
    return std::move(to_);
  }

 private:
  static size_t Index(ValueId value) { return static_cast<size_t>(value); }

  const Node* Producer(ValueId value) const {
    const int32_t producer = from_.values[Index(value)].producer;
    return producer < 0 ? nullptr : &from_.nodes[static_cast<size_t>(producer)];
  }
  const Node* ProducerNamed(ValueId value, const char* operation) const {
    const Node* producer = Producer(value);
    return producer != nullptr && producer->operation == operation ? producer : nullptr;
  }
  static bool IsNorm(const Node& node) { return node.operation == "layer_norm" || node.operation == "rms_norm"; }
  static bool IsGelu(const Node& node) { return node.operation == "gelu" || node.operation == "gelu_erf"; }
  bool UsedOnce(ValueId value) const { return uses_[Index(value)] == 1; }

  // The producer that `node` swallows, or null.
  const Node* Swallows(const Node& node) const {
    if (IsGelu(node) && UsedOnce(node.inputs[0])) {
      const Node* linear = ProducerNamed(node.inputs[0], "linear");
      return linear != nullptr && linear->inputs.size() == 3 ? linear : nullptr;
    }
    if (IsNorm(node)) {
      const Node* add = ProducerNamed(node.inputs[0], "add");
      return add != nullptr && FirstReader(add->outputs[0]) == &node ? add : nullptr;
    }
    if (node.operation == "add") {
      return UsedOnce(node.inputs[1]) ? ProducerNamed(node.inputs[1], "dropout") : nullptr;
    }
    return nullptr;
  }

  const Node* FirstReader(ValueId value) const {
    for (const Node& node : from_.nodes) {
      for (const ValueId input : node.inputs) {
        if (input == value) return &node;
      }
    }
    return nullptr;
  }

  // An add that a norm swallows does not swallow a dropout itself: no kernel does all three.
  std::vector<bool> Absorbed() {
    std::vector<bool> absorbed(from_.nodes.size(), false);
    for (size_t i = from_.nodes.size(); i-- > 0;) {
      if (absorbed[i]) continue;
      if (const Node* swallowed = Swallows(from_.nodes[i]); swallowed != nullptr) {
        absorbed[static_cast<size_t>(swallowed - from_.nodes.data())] = true;
      }
    }
    return absorbed;
  }

  std::vector<ValueId> Mapped(const std::vector<ValueId>& values) const {
    std::vector<ValueId> result;
    result.reserve(values.size());
    for (const ValueId value : values) result.push_back(mapped_[Index(value)]);
    return result;
  }

  void Emit(const Node& node) {
    const Node* swallowed = Swallows(node);
    if (swallowed == nullptr) {
      Bind(node.outputs, to_.AddNode(node.operation, Mapped(node.inputs), node.attributes));
    } else if (IsGelu(node)) {
      const std::vector<ValueId> in = Mapped(swallowed->inputs);
      const ValueId product = to_.AddNode("linear", {in[0], in[1]}, swallowed->attributes)[0];
      Bind(node.outputs, to_.AddNode("bias_" + node.operation, {product, in[2]}));
    } else if (IsNorm(node)) {
      std::vector<ValueId> in = Mapped(swallowed->inputs);
      const std::vector<ValueId> rest = Mapped({node.inputs.begin() + 1, node.inputs.end()});
      in.insert(in.end(), rest.begin(), rest.end());
      const std::vector<ValueId> out = to_.AddNode("add_" + node.operation, std::move(in), node.attributes);
      mapped_[Index(swallowed->outputs[0])] = out[0];
      Bind(node.outputs, {out.begin() + 1, out.end()});
    } else {
      const ValueId x = Mapped(swallowed->inputs)[0];
      const ValueId r = Mapped(node.inputs)[0];
      Bind(node.outputs, to_.AddNode("dropout_add", {x, r}, swallowed->attributes));
    }
  }

  void Bind(const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
    for (size_t i = 0; i < from.size(); ++i) mapped_[Index(from[i])] = to[i];
  }

  const Graph& from_;
  Graph to_;
  std::vector<int> uses_;
  std::vector<ValueId> mapped_;
};

}  // namespace

Graph Fuse(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace reprise
