#include "runtime/model/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/graph/fusion.h"
#include "runtime/model/low_rank.h"

namespace reprise {
namespace {

std::string BlockName(const Model& model, size_t index) {
  if (index == 0) return "embedding";
  if (index + 1 == model.blocks.size()) return "head";
  return absl::StrCat("layer ", index - 1);
}

// Nothing is kept of the first block's forward, and its unit is not gathered for its backward: what that reads, it
// makes again from the batch alone.
void RemakeInBackward(const Graph& graph, BlockRoutines* routines) {
  Routine& backward = routines->backward;
  backward.nodes.insert(backward.nodes.begin(), routines->recompute.nodes.begin(), routines->recompute.nodes.end());
  backward.flops += routines->recompute.flops;
  routines->recompute = {};
  routines->saved.clear();
  for (const int32_t n : backward.nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    for (const ValueId input : node.inputs) {
      REPRISE_CHECK(graph.values[static_cast<size_t>(input)].role != ValueRole::kParameter)
          << "backward of the model's first block reads a parameter in " << node.operation
          << "; the first block looks its input up, and what is computed further belongs in the block behind it";
    }
  }
}

// `trained`: by parameter. `gradient_before`: whether the boundary before the block wants a gradient.
std::shared_ptr<const ProgramGraph> Derive(const Graph& traced, bool training, bool gradient_before,
                                           const std::vector<bool>& trained, bool first) {
  auto graph = std::make_shared<ProgramGraph>();
  if (training) {
    graph->block = Differentiate(Fuse(traced), gradient_before, trained);
  } else {
    graph->block.graph = Fuse(traced);
    graph->block.forward_nodes = static_cast<int32_t>(graph->block.graph.nodes.size());
  }
  graph->routines = MakeRoutines(graph->block);
  if (first && training) RemakeInBackward(graph->block.graph, &graph->routines);
  return graph;
}

// Every tensor of a boundary is one of its own: what a block hands on as it was, or twice, is copied. So each lives as
// long as it is wanted there, whatever becomes of the boundary that it came from.
Tensor OwnOutput(const Tensor& output, const Graph& graph) {
  const bool is_computed = graph.values[static_cast<size_t>(output.value())].role == ValueRole::kComputed;
  const bool is_first = std::find(graph.outputs.begin(), graph.outputs.end(), output.value()) == graph.outputs.end();
  return is_computed && is_first ? output : Apply("copy", {output})[0];
}

// Notes what the nodes of `graph` read of the batch.
void AddDataBytes(const Graph& graph, DataBytes* bytes) {
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) {
      const Value& value = graph.values[static_cast<size_t>(input)];
      if (value.role != ValueRole::kData) continue;
      int64_t& place = (*bytes)[static_cast<size_t>(value.index)];
      REPRISE_CHECK(place == 0 || place == value.type.bytes())
          << "two blocks read " << DataKindName(static_cast<DataKind>(value.index)) << " of " << place << " and "
          << value.type.bytes() << " bytes";
      place = value.type.bytes();
    }
  }
}

}  // namespace

Program TraceModel(const Model& model, const BatchShape& shape) {
  REPRISE_CHECK(model.blocks.size() >= 2) << "a model has a first and a last block";
  Program program;
  program.shape = shape;
  program.keep_alive.assign(model.blocks.begin(), model.blocks.end());
  for (const auto& [weight, adapter] : model.adapters) program.keep_alive.push_back(adapter);
  std::map<std::string, int32_t> known;
  std::vector<TensorType> boundary;
  bool gradient_before = false;
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    Trace trace;
    trace.training = shape.training;
    BlockTrace block_trace(&trace, shape.dtype, shape.sequences, shape.sequence_length);
    if (!model.adapters.empty()) {
      trace.behind_linear = [&](Tensor x, Tensor weight, Tensor y) {
        return Adapt(model.adapters, block_trace, x, weight, y);
      };
    }
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < boundary.size(); ++k) {
      inputs.push_back(block_trace.Boundary(static_cast<int32_t>(k), boundary[k]));
    }
    const std::vector<Tensor> outputs = model.blocks[i]->Forward(block_trace, inputs);
    boundary.clear();
    for (const Tensor& output : outputs) {
      trace.graph.outputs.push_back(OwnOutput(output, trace.graph).value());
      boundary.push_back(output.type());
    }
    ProgramBlock block{BlockName(model, i), 0, block_trace.parameters(), {}};
    std::string key = absl::StrCat(i == 0 ? "first, " : "", gradient_before ? "gradient before, " : "", "trained");
    for (const Parameter* parameter : block.parameters) {
      block.trained.push_back(!model.trained || model.trained(*parameter));
      key += block.trained.back() ? " 1" : " 0";
    }
    absl::StrAppend(&key, "\n", trace.graph.ToString());
    const auto [it, is_new] = known.emplace(key, static_cast<int32_t>(program.graphs.size()));
    if (is_new) program.graphs.push_back(Derive(trace.graph, shape.training, gradient_before, block.trained, i == 0));
    block.graph = it->second;
    if (block.trains_any() && !gradient_before) program.first_backward = static_cast<int32_t>(i);
    gradient_before |= block.trains_any();
    program.blocks.push_back(std::move(block));
  }
  for (const auto& graph : program.graphs) AddDataBytes(graph->block.graph, &program.data_bytes);
  REPRISE_CHECK(gradient_before || !shape.training) << "no parameter of " << model.name << " is trained";
  if (shape.training) {
    ChooseSavedSets([](const ProgramGraph& g, int32_t node) { return DefaultNodeCost(g.block.graph)(node); }, &program);
  }
  return program;
}

void ChooseSavedSets(const ProgramNodeCost& cost, Program* program) {
  std::vector<bool> of_layer(program->graphs.size(), false);
  for (size_t b = std::max<size_t>(1, static_cast<size_t>(program->first_backward)); b + 1 < program->blocks.size();
       ++b) {
    of_layer[static_cast<size_t>(program->blocks[b].graph)] = true;
  }
  for (size_t g = 0; g < program->graphs.size(); ++g) {
    if (!of_layer[g]) continue;
    auto graph = std::make_shared<ProgramGraph>(*program->graphs[g]);
    const NodeCost node_cost = [&](int32_t node) { return cost(*graph, node); };
    graph->saved_sets = SavedSets(graph->block, node_cost);
    program->graphs[g] = std::move(graph);
  }
}

int32_t ProgramGraph::selective_set() const {
  const auto found = std::find_if(saved_sets.begin(), saved_sets.end(), [](const SavedSet& s) { return s.selective; });
  return found == saved_sets.end() ? -1 : static_cast<int32_t>(found - saved_sets.begin());
}

std::string Program::ToString() const {
  std::string text;
  for (size_t g = 0; g < graphs.size(); ++g) {
    absl::StrAppend(&text, "graph ", g, " of");
    for (const ProgramBlock& block : blocks) {
      if (block.graph == static_cast<int32_t>(g)) absl::StrAppend(&text, " ", block.name);
    }
    absl::StrAppend(&text, "\n", graphs[g]->block.graph.ToString());
  }
  for (const ProgramBlock& block : blocks) {
    if (std::find(block.trained.begin(), block.trained.end(), false) == block.trained.end()) continue;
    absl::StrAppend(&text, "trained of ", block.name);
    for (const bool trained : block.trained) absl::StrAppend(&text, trained ? " 1" : " 0");
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace reprise
