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

}  // namespace

Routine RoutineFor(const DifferentiatedGraph& block, const std::vector<ValueId>& wanted,
                   const std::vector<ValueId>& have) {
  std::vector<bool> needed(block.graph.values.size(), false);
  std::vector<bool> here(block.graph.values.size(), false);
  for (const ValueId value : have) here[static_cast<size_t>(value)] = true;
  for (const ValueId value : wanted) needed[static_cast<size_t>(value)] = true;
  std::vector<int32_t> nodes;
  for (int32_t i = block.forward_nodes - 1; i >= 0; --i) {
    const Node& node = block.graph.nodes[static_cast<size_t>(i)];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return needed[static_cast<size_t>(v)] && !here[static_cast<size_t>(v)];
    });
    if (!used) continue;
    nodes.push_back(i);
    for (const ValueId input : node.inputs) needed[static_cast<size_t>(input)] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return Finish(block.graph, std::move(nodes));
}

std::vector<bool> BoundaryReads(const Graph& graph, const std::vector<const Routine*>& routines) {
  std::vector<bool> read(graph.values.size(), false);
  for (const Routine* routine : routines) {
    for (const int32_t node : routine->nodes) {
      for (const ValueId input : graph.nodes[static_cast<size_t>(node)].inputs) read[static_cast<size_t>(input)] = true;
    }
  }
  std::vector<bool> reads;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role != ValueRole::kBoundary) continue;
    const auto index = static_cast<size_t>(value.index);
    if (reads.size() <= index) reads.resize(index + 1, false);
    reads[index] = read[i];
  }
  return reads;
}

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
  routines.recompute = RoutineFor(block, routines.saved);
  std::vector<ValueId> through = routines.saved;
  through.insert(through.end(), graph.outputs.begin(), graph.outputs.end());
  routines.recompute_through = RoutineFor(block, through);
  routines.backward = Finish(graph, backward);

  routines.reads_boundary = BoundaryReads(graph, {&routines.recompute, &routines.backward});
  return routines;
}

}  // namespace reprise
