#include "runtime/graph/graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

OperationTypes TypesOf(const Graph& graph, const std::vector<ValueId>& values) {
  OperationTypes types;
  types.reserve(values.size());
  for (const ValueId value : values) types.push_back(graph.type(value));
  return types;
}

std::string Names(const std::vector<ValueId>& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, ValueId value) { absl::StrAppend(out, "%", value); });
}

const char* RoleName(ValueRole role) {
  switch (role) {
    case ValueRole::kBoundary:
      return "boundary";
    case ValueRole::kData:
      return "data";
    case ValueRole::kParameter:
      return "parameter";
    case ValueRole::kComputed:
      return "computed";
    case ValueRole::kGradient:
      return "gradient";
  }
  return "?";
}

}  // namespace

ValueId Graph::AddValue(TensorType type, ValueRole role, int32_t index) {
  values.push_back({std::move(type), role, index, -1});
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<ValueId> Graph::AddNode(const std::string& operation, std::vector<ValueId> inputs, Attributes attributes) {
  const std::vector<TensorType> types = GetOperation(operation).infer(TypesOf(*this, inputs), attributes);
  Node node{operation, std::move(inputs), {}, std::move(attributes)};
  for (const TensorType& type : types) {
    node.outputs.push_back(AddValue(type, ValueRole::kComputed));
    values.back().producer = static_cast<int32_t>(nodes.size());
  }
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

ValueId Graph::Find(ValueRole role, int32_t index) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].role == role && values[i].index == index) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

int64_t Graph::NodeFlops(int32_t node) const {
  const Node& n = nodes[static_cast<size_t>(node)];
  const Operation& operation = GetOperation(n.operation);
  return operation.flops ? operation.flops(TypesOf(*this, n.inputs), n.attributes) : 0;
}

std::string Graph::ToString() const {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].role == ValueRole::kComputed) continue;
    absl::StrAppend(&text, "%", i, " ", RoleName(values[i].role), " ", values[i].index, " ", values[i].type.ToString(),
                    "\n");
  }
  for (const Node& node : nodes) {
    absl::StrAppend(&text, Names(node.outputs), " = ", node.operation, "(", Names(node.inputs), ") {",
                    node.attributes.ToString(), "}\n");
  }
  return absl::StrCat(text, "return ", Names(outputs), "\n");
}

}  // namespace reprise
