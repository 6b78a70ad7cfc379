#include "tests/tools/graph_runner.h"

#include <cstring>
#include <numeric>

#include "base/check.h"

namespace reprise::testing {

GraphRunner::GraphRunner(const Graph& graph) : graph_(graph) {
  for (const Value& value : graph.values) memory_.emplace_back(static_cast<size_t>(value.type.bytes()));
}

void GraphRunner::Set(ValueId value, const std::vector<double>& elements) {
  std::vector<std::byte>& memory = memory_[static_cast<size_t>(value)];
  const TensorType& type = graph_.type(value);
  REPRISE_CHECK(static_cast<int64_t>(elements.size()) == type.elements()) << type.ToString();
  for (size_t i = 0; i < elements.size(); ++i) {
    if (type.dtype == DType::kInt32) {
      const auto integer = static_cast<int32_t>(elements[i]);
      std::memcpy(memory.data() + i * sizeof(integer), &integer, sizeof(integer));
    } else {
      std::memcpy(memory.data() + i * sizeof(double), &elements[i], sizeof(double));
    }
  }
}

std::vector<double> GraphRunner::Get(ValueId value) const {
  const std::vector<std::byte>& memory = memory_[static_cast<size_t>(value)];
  REPRISE_CHECK(graph_.type(value).dtype == DType::kFloat64) << graph_.type(value).ToString();
  std::vector<double> elements(memory.size() / sizeof(double));
  std::memcpy(elements.data(), memory.data(), memory.size());
  return elements;
}

void GraphRunner::Run(const std::vector<int32_t>& nodes) {
  for (const int32_t index : nodes) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    KernelSpec spec{node.operation, {}, {}, node.attributes};
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const ValueId value : node.inputs) {
      spec.inputs.push_back(graph_.type(value));
      inputs.push_back(memory_[static_cast<size_t>(value)].data());
    }
    for (const ValueId value : node.outputs) {
      spec.outputs.push_back(graph_.type(value));
      outputs.push_back(memory_[static_cast<size_t>(value)].data());
    }
    auto kernel = MakeKernel(spec, {.kind = KernelKind::kReference});
    REPRISE_CHECK(kernel.ok()) << kernel.status().ToString();
    std::vector<std::byte> scratch(static_cast<size_t>((*kernel)->scratch_bytes()));
    (*kernel)->Run({.inputs = inputs, .outputs = outputs, .scratch = scratch.data(), .step = &step});
  }
}

void GraphRunner::RunAll() {
  std::vector<int32_t> nodes(graph_.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  Run(nodes);
}

}  // namespace reprise::testing
