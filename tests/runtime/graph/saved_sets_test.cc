// Saved sets against brute force over every set of values: of random graphs, and of GPT-2's layer.
#include "runtime/graph/saved_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/gpt2.h"
#include "runtime/graph/fusion.h"
#include "runtime/graph/tensor.h"
#include "runtime/model/program.h"

namespace reprise {
namespace {

using Point = std::pair<int64_t, int64_t>;  // bytes, cost

int64_t Rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

Program Gpt2Program(double dropout = 0) {
  return TraceModel(
      Gpt2({.vocab_size = 11, .n_positions = 16, .n_embd = 48, .n_layer = 2, .n_head = 2, .dropout = dropout}),
      {.sequences = 4, .sequence_length = 16});
}

// --- Brute force
// ------------------------------------------------------------------------------------------------------

// What must run, and whether the boundary is read, if just the values of `kept` are kept.
struct Walk {
  const DifferentiatedGraph& block;
  const std::set<ValueId>& kept;
  std::set<int32_t> nodes;
  std::set<ValueId> boundary;

  void Want(ValueId value) {
    const Value& v = block.graph.values[static_cast<size_t>(value)];
    if (v.role == ValueRole::kBoundary) boundary.insert(value);
    if (v.role != ValueRole::kComputed || v.producer >= block.forward_nodes || kept.count(value) > 0) return;
    if (!nodes.insert(v.producer).second) return;
    for (const ValueId input : block.graph.nodes[static_cast<size_t>(v.producer)].inputs) Want(input);
  }
};

std::vector<ValueId> ForwardValues(const DifferentiatedGraph& block) {
  std::vector<ValueId> values;
  for (int32_t n = 0; n < block.forward_nodes; ++n) {
    for (const ValueId v : block.graph.nodes[static_cast<size_t>(n)].outputs) values.push_back(v);
  }
  return values;
}

// The front over all sets of values, by falling bytes.
std::vector<Point> BruteFront(const DifferentiatedGraph& block, const std::vector<int64_t>& costs) {
  const std::vector<ValueId> values = ForwardValues(block);
  std::map<int64_t, int64_t> best;  // cost by bytes
  for (uint32_t mask = 0; mask < 1U << values.size(); ++mask) {
    std::set<ValueId> kept;
    int64_t bytes = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      if ((mask >> k & 1U) == 0) continue;
      kept.insert(values[k]);
      bytes += Rounded(block.graph.type(values[k]).bytes());
    }
    Walk walk{block, kept, {}, {}};
    for (size_t n = static_cast<size_t>(block.forward_nodes); n < block.graph.nodes.size(); ++n) {
      for (const ValueId input : block.graph.nodes[n].inputs) walk.Want(input);
    }
    for (const ValueId v : walk.boundary) bytes += Rounded(block.graph.type(v).bytes());
    int64_t cost = 0;
    for (const int32_t n : walk.nodes) cost += costs[static_cast<size_t>(n)];
    const auto [it, is_new] = best.emplace(bytes, cost);
    if (!is_new) it->second = std::min(it->second, cost);
  }
  std::vector<Point> front;
  for (const auto& [bytes, cost] : best) {
    if (front.empty() || cost < front.back().second) front.emplace_back(bytes, cost);
  }
  std::reverse(front.begin(), front.end());
  return front;
}

std::vector<Point> Points(const std::vector<SavedSet>& sets) {
  std::vector<Point> points;
  for (const SavedSet& set : sets) points.emplace_back(set.kept_bytes + set.boundary_bytes, set.cost);
  return points;
}

// A point is a corner of the lower hull if it lies below every line between a point on its left and one on its right.
std::vector<Point> Corners(const std::vector<Point>& front) {
  std::vector<Point> corners;
  for (size_t i = 0; i < front.size(); ++i) {
    bool corner = true;
    for (size_t a = 0; a < i; ++a) {
      for (size_t b = i + 1; b < front.size(); ++b) {
        const int64_t rise = front[b].second - front[a].second;
        const int64_t run = front[a].first - front[b].first;
        corner = corner && (front[i].second - front[a].second) * run < rise * (front[a].first - front[i].first);
      }
    }
    if (corner) corners.push_back(front[i]);
  }
  return corners;
}

// A random chain of operations, each reading something made before.
DifferentiatedGraph RandomBlock(std::mt19937* random) {
  const auto draw = [random](size_t below) { return static_cast<size_t>((*random)() % below); };
  constexpr int64_t kRows = 16;
  constexpr int64_t kWidths[] = {8, 16, 40};
  Trace trace;
  int32_t parameters = 0;
  const auto parameter = [&](std::vector<int64_t> shape) {
    return Tensor(&trace,
                  trace.graph.AddValue({DType::kFloat32, std::move(shape)}, ValueRole::kParameter, parameters++));
  };
  std::vector<Tensor> made = {
      Tensor(&trace, trace.graph.AddValue({DType::kFloat32, {kRows, 16}}, ValueRole::kBoundary, 0))};
  for (size_t n = 0; n < 6 + draw(3); ++n) {
    const Tensor x = made[made.size() - 1 - draw(std::min<size_t>(made.size(), 3))];
    const int64_t width = x.dimension(1);
    const size_t operation = draw(4);
    if (operation == 0) made.push_back(Gelu(x));
    if (operation == 1) made.push_back(LayerNorm(x, parameter({width}), parameter({width}), 1e-5));
    if (operation == 2) made.push_back(Linear(x, parameter({width, kWidths[draw(3)]})));
    if (operation == 3) {
      const Tensor y = made[draw(made.size())];
      made.push_back(y.dimension(1) == width ? x + y : Gelu(x));
    }
  }
  trace.graph.outputs = {made.back().value()};
  return Differentiate(Fuse(trace.graph), true);
}

std::vector<int64_t> RandomCosts(const DifferentiatedGraph& block, std::mt19937* random) {
  std::vector<int64_t> costs;
  for (int32_t n = 0; n < block.forward_nodes; ++n) costs.push_back(1 + static_cast<int64_t>((*random)() % 50));
  return costs;
}

NodeCost CostOf(const std::vector<int64_t>& costs) {
  return [&costs](int32_t node) { return costs[static_cast<size_t>(node)]; };
}

// --- Tests
// ------------------------------------------------------------------------------------------------------------

TEST(SavedSetsTest, TheFrontIsThatOfAllSetsOfValues) {
  std::mt19937 random(5);
  size_t points = 0;
  int hulls = 0;
  for (int n = 0; n < 100; ++n) {
    const DifferentiatedGraph block = RandomBlock(&random);
    if (ForwardValues(block).size() > 13) continue;
    const std::vector<int64_t> costs = RandomCosts(block, &random);
    const std::vector<Point> expected = BruteFront(block, costs);
    EXPECT_EQ(Points(ParetoFront(block, CostOf(costs))), expected) << block.graph.ToString();
    points = std::max(points, expected.size());
    // By cuts, where running all again keeps least.
    const std::vector<SavedSet> hull = ParetoFront(block, CostOf(costs), 0);
    if (Points(hull).back() != expected.back() || hull.size() < 2) continue;
    EXPECT_EQ(Points(hull), Corners(expected)) << block.graph.ToString();
    ++hulls;
  }
  EXPECT_GE(points, 5U);
  EXPECT_GE(hulls, 20);
}

TEST(SavedSetsTest, TheFrontOfALayerIsThatOfAllSetsOfValues) {
  const Program program = Gpt2Program();
  const DifferentiatedGraph& block = program.graph(1).block;
  std::vector<int64_t> costs;
  for (int32_t n = 0; n < block.forward_nodes; ++n) costs.push_back(DefaultNodeCost(block.graph)(n));
  const std::vector<SavedSet> front = ParetoFront(block, CostOf(costs));
  EXPECT_EQ(Points(front), BruteFront(block, costs));
  EXPECT_TRUE(front.front().recompute.nodes.empty());
  EXPECT_TRUE(front.back().values.empty());
  EXPECT_EQ(Points(ParetoFront(block, CostOf(costs), 0)), Corners(BruteFront(block, costs)));
}

// Everything that recompute and backward read is kept, made again before, or there anyway.
void ExpectComplete(const DifferentiatedGraph& block, const SavedSet& set) {
  const Graph& graph = block.graph;
  std::set<ValueId> here(set.values.begin(), set.values.end());
  const auto expect_here = [&](ValueId v, int32_t reader) {
    const Value& value = graph.values[static_cast<size_t>(v)];
    if (value.role == ValueRole::kBoundary) {
      EXPECT_TRUE(set.reads_boundary[static_cast<size_t>(value.index)]);
      return;
    }
    const bool by_forward = value.role == ValueRole::kComputed && value.producer < block.forward_nodes;
    EXPECT_TRUE(!by_forward || here.count(v) > 0) << "node " << reader << " reads %" << v << " of " << set.name;
  };
  for (const int32_t n : set.recompute.nodes) {
    for (const ValueId v : graph.nodes[static_cast<size_t>(n)].inputs) expect_here(v, n);
    for (const ValueId v : graph.nodes[static_cast<size_t>(n)].outputs) {
      EXPECT_TRUE(here.insert(v).second) << "%" << v << " is kept and made again";
    }
  }
  for (auto n = static_cast<size_t>(block.forward_nodes); n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].inputs) expect_here(v, static_cast<int32_t>(n));
  }
}

TEST(SavedSetsTest, SetsAreCompleteAndOrderedAndFew) {
  std::mt19937 random(8);
  std::vector<DifferentiatedGraph> blocks = {Gpt2Program().graph(1).block, Gpt2Program(0.1).graph(1).block};
  for (int n = 0; n < 30; ++n) blocks.push_back(RandomBlock(&random));
  for (const DifferentiatedGraph& block : blocks) {
    const NodeCost cost = DefaultNodeCost(block.graph);
    const std::vector<SavedSet> sets = SavedSets(block, cost);
    EXPECT_LE(sets.size(), 9U);
    EXPECT_EQ(std::count_if(sets.begin(), sets.end(), [](const SavedSet& s) { return s.selective; }), 1);
    const std::vector<Point> front = Points(ParetoFront(block, cost));
    for (size_t i = 0; i < sets.size(); ++i) {
      ExpectComplete(block, sets[i]);
      EXPECT_LE(sets[i].kept_bytes, sets[i > 0 ? i - 1 : 0].kept_bytes);
      if (sets[i].selective) continue;
      EXPECT_FALSE(sets[i].values.empty());
      EXPECT_FALSE(sets[i].recompute.nodes.empty());
      EXPECT_NE(std::find(front.begin(), front.end(), Points(sets)[i]), front.end());
    }
    const std::vector<SavedSet> again = SavedSets(block, cost);
    ASSERT_EQ(again.size(), sets.size());
    for (size_t i = 0; i < sets.size(); ++i) EXPECT_EQ(again[i].values, sets[i].values);
  }
}

// The corners of the hull are all there, where there is room.
TEST(SavedSetsTest, CornersOfTheHullComeFirst) {
  std::mt19937 random(9);
  int with_room = 0;
  for (int n = 0; n < 60; ++n) {
    const DifferentiatedGraph block = RandomBlock(&random);
    const std::vector<int64_t> costs = RandomCosts(block, &random);
    const std::vector<SavedSet> front = ParetoFront(block, CostOf(costs));
    std::vector<Point> corners = Corners(Points(front));
    const std::vector<Point> sets = Points(SavedSets(block, CostOf(costs)));
    if (corners.size() > 8 || corners.size() < 3) continue;
    ++with_room;
    for (size_t i = 1; i + 1 < corners.size(); ++i) {
      EXPECT_NE(std::find(sets.begin(), sets.end(), corners[i]), sets.end()) << block.graph.ToString();
    }
  }
  EXPECT_GE(with_room, 10);
}

TEST(SavedSetsTest, SelectiveKeepsAttentionAndProducts) {
  for (const double dropout : {0.0, 0.1}) {
    const Program program = Gpt2Program(dropout);
    const ProgramGraph& graph = program.graph(1);
    const SavedSet& set = graph.saved_sets[static_cast<size_t>(graph.selective_set())];
    EXPECT_EQ(set.name, "linear, attention");
    EXPECT_EQ(set.recompute.flops, 0);
    EXPECT_EQ(set.reads_boundary, std::vector<bool>{true});
    int64_t elements = 0;
    for (const ValueId v : set.values) elements += graph.block.graph.type(v).elements();
    // q k v, attention and its statistics by head, the projection behind it, the product before GELU.
    EXPECT_EQ(elements, 4 * 16 * (48 * (3 + 1 + 1 + 4) + 2));
    EXPECT_LT(set.kept_bytes, ParetoFront(graph.block, DefaultNodeCost(graph.block.graph)).front().kept_bytes);
  }
}

TEST(SavedSetsTest, CostsThatAreGivenDecide) {
  Program program = Gpt2Program();
  const auto names = [&] {
    std::vector<std::string> names;
    for (const SavedSet& set : program.graph(1).saved_sets) names.push_back(set.name);
    return names;
  };
  const std::vector<std::string> by_default = names();
  // Attention alone costs anything: keep it, make all else again.
  ChooseSavedSets(
      [](const ProgramGraph& g, int32_t node) {
        return g.block.graph.nodes[static_cast<size_t>(node)].operation == "attention" ? 1000 : 1;
      },
      &program);
  EXPECT_NE(names(), by_default);
  const std::vector<std::string> now = names();
  EXPECT_NE(std::find(now.begin(), now.end(), "attention"), now.end());
  EXPECT_GE(program.graph(1).selective_set(), 0);
}

}  // namespace
}  // namespace reprise
