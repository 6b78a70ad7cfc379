// Graph: the operations of one block, as plain data. Made by tracing (runtime/graph/tensor.h), fused once
// (fusion.h), then differentiated (gradient.h); routines (routine.h) are lists of its nodes.
//
// Values are numbered in the order in which they were made, nodes in the order in which they run: a node reads only
// values with a smaller producer. Printed by ToString:
//
//   %0 input f32[512, 192]
//   %1 parameter 0 f32[192]
//   %3, %4, %5 = layer_norm(%0, %1, %2) {epsilon=1.0000000000000001e-05}
#ifndef REPRISE_RUNTIME_GRAPH_GRAPH_H_
#define REPRISE_RUNTIME_GRAPH_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/data_kind.h"
#include "runtime/tensor/attributes.h"
#include "runtime/tensor/types.h"

namespace reprise {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class ValueRole : uint8_t {
  kBoundary,   // handed over by the block before; index: position in the boundary
  kData,       // of the batch; index: a DataKind
  kParameter,  // index: position among the block's parameters
  kComputed,   // output of a node
  kGradient,   // gradient of the block's output `index`, handed over by the block behind
};

struct Value {
  TensorType type;
  ValueRole role = ValueRole::kComputed;
  int32_t index = 0;
  int32_t producer = -1;  // node, for kComputed
};

struct Node {
  std::string operation;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;  // the boundary behind the block; for the last block: the loss, f64[1]

  const TensorType& type(ValueId value) const { return values[static_cast<size_t>(value)].type; }

  ValueId AddValue(TensorType type, ValueRole role, int32_t index = 0);
  // Infers the types of the outputs and appends the node; returns its outputs.
  std::vector<ValueId> AddNode(const std::string& operation, std::vector<ValueId> inputs, Attributes attributes = {});

  // The value with this role and index, or kNoValue.
  ValueId Find(ValueRole role, int32_t index) const;
  int64_t NodeFlops(int32_t node) const;
  std::string ToString() const;  // equal strings: equal graphs
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_GRAPH_H_
