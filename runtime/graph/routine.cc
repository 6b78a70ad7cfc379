#include "runtime/graph/routine.h"

#include <algorithm>
#include <numeric>

namespace reprise {
namespace {

Routine Finish(const Graph& graph, std::vector<int32_t> nodes) {
  Routine routine;
  routine.nodes = std::move(nodes);
  for (const int32_t node : routine.nodes) routine.flops += graph.NodeFlops(node);
  return routine;
}

// The forward nodes without which `wanted` cannot be made.
std::vector<int32_t> NodesFor(const DifferentiatedGraph& block, const std::vector<ValueId>& wanted) {
  std::vector<bool> needed(block.graph.values.size(), false);
  for (const ValueId value : wanted) needed[static_cast<size_t>(value)] = true;
  std::vector<int32_t> nodes;
  for (int32_t i = block.forward_nodes - 1; i >= 0; --i) {
    const Node& node = block.graph.nodes[static_cast<size_t>(i)];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId output) { return needed[static_cast<size_t>(output)]; });
    if (!used) continue;
    nodes.push_back(i);
    for (const ValueId input : node.inputs) needed[static_cast<size_t>(input)] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

BlockRoutines MakeRoutines(const DifferentiatedGraph& block) {
  const Graph& graph = block.graph;
  BlockRoutines routines;
  std::vector<int32_t> forward(static_cast<size_t>(block.forward_nodes));
  std::iota(forward.begin(), forward.end(), 0);
  std::vector<int32_t> backward(graph.nodes.size() - forward.size());
  std::iota(backward.begin(), backward.end(), block.forward_nodes);

  std::vector<bool> read(graph.values.size(), false);
  for (const int32_t node : backward) {
    for (const ValueId input : graph.nodes[static_cast<size_t>(node)].inputs) read[static_cast<size_t>(input)] = true;
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (read[i] && value.role == ValueRole::kComputed && value.producer < block.forward_nodes) {
      routines.saved.push_back(static_cast<ValueId>(i));
    }
  }
  routines.forward = Finish(graph, forward);
  routines.recompute = Finish(graph, NodesFor(block, routines.saved));
  std::vector<ValueId> through = routines.saved;
  through.insert(through.end(), graph.outputs.begin(), graph.outputs.end());
  routines.recompute_through = Finish(graph, NodesFor(block, through));
  routines.backward = Finish(graph, backward);

  for (const int32_t node : routines.recompute.nodes) {
    for (const ValueId input : graph.nodes[static_cast<size_t>(node)].inputs) read[static_cast<size_t>(input)] = true;
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role != ValueRole::kBoundary) continue;
    const size_t index = static_cast<size_t>(value.index);
    if (routines.reads_boundary.size() <= index) routines.reads_boundary.resize(index + 1, false);
    routines.reads_boundary[index] = read[i];
  }
  return routines;
}

}  // namespace reprise
