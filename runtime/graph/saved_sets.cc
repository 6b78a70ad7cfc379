#include "runtime/graph/saved_sets.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"

namespace reprise {
namespace {

constexpr int64_t kAlignment = 256;  // of the arena

int64_t AlignedBytes(const Graph& graph, ValueId value) { return RoundUp(graph.type(value).bytes(), kAlignment); }

// By value: whether backward reads it.
std::vector<bool> ReadByBackward(const DifferentiatedGraph& block) {
  std::vector<bool> read(block.graph.values.size(), false);
  for (size_t n = static_cast<size_t>(block.forward_nodes); n < block.graph.nodes.size(); ++n) {
    for (const ValueId input : block.graph.nodes[n].inputs) read[static_cast<size_t>(input)] = true;
  }
  return read;
}

bool MadeByForward(const DifferentiatedGraph& block, size_t value) {
  const Value& v = block.graph.values[value];
  return v.role == ValueRole::kComputed && v.producer < block.forward_nodes;
}

// The set whose nodes `again` run again.
SavedSet SetOf(const DifferentiatedGraph& block, Routine again, const NodeCost& cost) {
  const Graph& graph = block.graph;
  SavedSet set;
  std::vector<bool> read = ReadByBackward(block);
  std::vector<bool> made(graph.values.size(), false);
  for (const int32_t n : again.nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    for (const ValueId input : node.inputs) read[static_cast<size_t>(input)] = true;
    for (const ValueId output : node.outputs) made[static_cast<size_t>(output)] = true;
    set.cost += cost(n);
  }
  std::set<std::string> named;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const auto value = static_cast<ValueId>(i);
    if (!read[i] || made[i]) continue;
    if (graph.values[i].role == ValueRole::kBoundary) set.boundary_bytes += AlignedBytes(graph, value);
    if (!MadeByForward(block, i)) continue;
    set.values.push_back(value);
    set.kept_bytes += AlignedBytes(graph, value);
    const std::string& operation = graph.nodes[static_cast<size_t>(graph.values[i].producer)].operation;
    if (named.insert(operation).second) absl::StrAppend(&set.name, set.name.empty() ? "" : ", ", operation);
  }
  set.recompute = std::move(again);
  BlockRoutines routines = MakeRoutines(block);
  set.reads_boundary = BoundaryReads(graph, {&set.recompute, &routines.backward});
  return set;
}

}  // namespace

NodeCost DefaultNodeCost(const Graph& graph) {
  return [&graph](int32_t n) {
    constexpr int64_t kFlopsANanosecond = 100;
    constexpr int64_t kBytesANanosecond = 10;
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    int64_t bytes = 0;
    for (const ValueId v : node.inputs) bytes += graph.type(v).bytes();
    for (const ValueId v : node.outputs) bytes += graph.type(v).bytes();
    return graph.NodeFlops(n) / kFlopsANanosecond + bytes / kBytesANanosecond;
  };
}

SavedSet MakeSavedSet(const DifferentiatedGraph& block, const std::vector<ValueId>& candidates, const NodeCost& cost) {
  const std::vector<bool> read = ReadByBackward(block);
  std::vector<ValueId> wanted;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] && MadeByForward(block, i)) wanted.push_back(static_cast<ValueId>(i));
  }
  return SetOf(block, RoutineFor(block, wanted, candidates), cost);
}

SavedSet SelectiveSet(const DifferentiatedGraph& block, const NodeCost& cost) {
  std::vector<ValueId> candidates;
  for (int32_t n = 0; n < block.forward_nodes; ++n) {
    const Node& node = block.graph.nodes[static_cast<size_t>(n)];
    if (node.operation != "attention" && !absl::StartsWith(node.operation, "linear")) continue;
    candidates.insert(candidates.end(), node.outputs.begin(), node.outputs.end());
  }
  SavedSet set = MakeSavedSet(block, candidates, cost);
  set.selective = true;
  return set;
}

}  // namespace reprise
