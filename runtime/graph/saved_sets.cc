#include "runtime/graph/saved_sets.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "runtime/graph/min_cut.h"

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

// --- The front
// --------------------------------------------------------------------------------------------------------

constexpr size_t kMostSets = 8;

int64_t TotalBytes(const SavedSet& set) { return set.kept_bytes + set.boundary_bytes; }

// The choice as a problem of its own: which of the nodes that backward depends on run again.
class Choice {
 public:
  Choice(const DifferentiatedGraph& block, const NodeCost& cost)
      : block_(block), cost_(cost), nodes_(MakeRoutines(block).recompute.nodes) {
    const Graph& graph = block.graph;
    const std::vector<bool> read = ReadByBackward(block);
    std::vector<int> position(graph.nodes.size(), -1);
    for (size_t k = 0; k < nodes_.size(); ++k) {
      position[static_cast<size_t>(nodes_[k])] = static_cast<int>(k);
      costs_.push_back(cost(nodes_[k]));  // once: it may look up a table
    }
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const bool made = MadeByForward(block, i);
      if (!made && graph.values[i].role != ValueRole::kBoundary) continue;
      const int producer = made ? position[static_cast<size_t>(graph.values[i].producer)] : -1;
      if (made && producer < 0) continue;  // nobody needs its node
      Piece piece{AlignedBytes(graph, static_cast<ValueId>(i)), producer, read[i], {}};
      for (size_t k = 0; k < nodes_.size(); ++k) {
        const std::vector<ValueId>& inputs = graph.nodes[static_cast<size_t>(nodes_[k])].inputs;
        if (std::find(inputs.begin(), inputs.end(), static_cast<ValueId>(i)) != inputs.end()) {
          piece.readers.push_back(static_cast<int>(k));
        }
      }
      pieces_.push_back(std::move(piece));
    }
  }

  size_t size() const { return nodes_.size(); }

  SavedSet Set(const std::vector<bool>& again) const {
    Routine routine;
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (!again[k]) continue;
      routine.nodes.push_back(nodes_[k]);
      routine.flops += block_.graph.NodeFlops(nodes_[k]);
    }
    return SetOf(block_, std::move(routine), cost_);
  }

  std::vector<SavedSet> Enumerate() const {
    struct Point {
      int64_t bytes, cost;
      int nodes;
      uint32_t again;
    };
    std::vector<Point> points;
    for (uint32_t again = 0; again < uint32_t{1} << size(); ++again) {
      points.push_back({BytesKept(again), Cost(again), __builtin_popcount(again), again});
    }
    // At equal bytes and cost, what runs fewest nodes again.
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return std::tie(a.bytes, a.cost, a.nodes, a.again) < std::tie(b.bytes, b.cost, b.nodes, b.again);
    });
    std::vector<SavedSet> front;
    int64_t least = INT64_MAX;
    for (const Point& point : points) {
      if (point.cost >= least) continue;
      least = point.cost;
      std::vector<bool> again(size());
      for (size_t k = 0; k < size(); ++k) again[k] = (point.again >> k & 1U) != 0;
      front.push_back(Set(again));
    }
    std::reverse(front.begin(), front.end());
    return front;
  }

  // The points of the lower hull between keeping everything and running all again.
  std::vector<SavedSet> Hull() const {
    std::vector<SavedSet> hull = {Set(std::vector<bool>(size(), false)), Set(std::vector<bool>(size(), true))};
    if (TotalBytes(hull[0]) <= TotalBytes(hull[1])) hull.pop_back();
    for (size_t i = 0; i + 1 < hull.size();) {
      SavedSet between = Between(hull[i], hull[i + 1]);
      if (Below(between, hull[i], hull[i + 1])) {
        hull.insert(hull.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(between));
      } else {
        ++i;
      }
    }
    return hull;
  }

 private:
  // A value that may have to be kept: if its producer does not run again, and backward or a node that does reads it.
  struct Piece {
    int64_t bytes = 0;
    int producer = -1;  // position in nodes_; -1: the boundary
    bool read_by_backward = false;
    std::vector<int> readers;
  };

  int64_t BytesKept(uint32_t again) const {
    int64_t bytes = 0;
    for (const Piece& piece : pieces_) {
      if (piece.producer >= 0 && (again >> piece.producer & 1U) != 0) continue;
      const bool read = piece.read_by_backward || std::any_of(piece.readers.begin(), piece.readers.end(),
                                                              [&](int k) { return (again >> k & 1U) != 0; });
      if (read) bytes += piece.bytes;
    }
    return bytes;
  }

  int64_t Cost(uint32_t again) const {
    int64_t cost = 0;
    for (size_t k = 0; k < size(); ++k) cost += (again >> k & 1U) != 0 ? costs_[k] : 0;
    return cost;
  }

  // The best set where bytes and cost weigh what makes `a` and `b` equal: as a minimum cut, whose source side are the
  // nodes that run again and the values that are read.
  SavedSet Between(const SavedSet& a, const SavedSet& b) const {
    const auto more_bytes = static_cast<double>(TotalBytes(a) - TotalBytes(b));
    const auto more_cost = static_cast<double>(b.cost - a.cost);
    const double scale = std::max(more_bytes, 1.0) * std::max(more_cost, 1.0) / 1e6;
    MinCut cut(static_cast<int>(size() + pieces_.size()));
    for (size_t k = 0; k < size(); ++k) {
      cut.Add(static_cast<int>(k), MinCut::kSink, more_bytes * static_cast<double>(costs_[k]) / scale);
    }
    for (size_t p = 0; p < pieces_.size(); ++p) {
      const Piece& piece = pieces_[p];
      const auto value = static_cast<int>(size() + p);
      if (piece.read_by_backward) cut.Add(MinCut::kSource, value, MinCut::kInfinite);
      for (const int k : piece.readers) cut.Add(k, value, MinCut::kInfinite);
      const double weight = more_cost * static_cast<double>(piece.bytes) / scale;
      cut.Add(value, piece.producer < 0 ? MinCut::kSink : piece.producer, weight);
    }
    std::vector<bool> side = cut.SourceSide();
    side.resize(size());
    return Set(side);
  }

  static bool Below(const SavedSet& set, const SavedSet& a, const SavedSet& b) {
    if (TotalBytes(set) >= TotalBytes(a) || TotalBytes(set) <= TotalBytes(b)) return false;
    const auto slope = static_cast<double>(b.cost - a.cost) / static_cast<double>(TotalBytes(a) - TotalBytes(b));
    const double on_the_line =
        static_cast<double>(a.cost) + slope * static_cast<double>(TotalBytes(a) - TotalBytes(set));
    return static_cast<double>(set.cost) < on_the_line * (1 - 1e-9);
  }

  const DifferentiatedGraph& block_;
  const NodeCost& cost_;
  const std::vector<int32_t> nodes_;
  std::vector<int64_t> costs_;  // of nodes_
  std::vector<Piece> pieces_;
};

// Positions of the front's points on its lower convex hull.
std::vector<size_t> HullOf(const std::vector<SavedSet>& front) {
  const auto slope = [&](size_t a, size_t b) {
    return static_cast<double>(front[b].cost - front[a].cost) /
           static_cast<double>(TotalBytes(front[a]) - TotalBytes(front[b]));
  };
  std::vector<size_t> hull;
  for (size_t i = 0; i < front.size(); ++i) {
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), i)) hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

// Moves the candidate that is farthest from all that are chosen to them, until there are kMostSets or none is left.
void Spread(const std::vector<SavedSet>& front, std::vector<size_t> candidates, std::vector<size_t>* marks,
            std::vector<size_t>* chosen) {
  const auto distance = [&](size_t i) {
    int64_t least = INT64_MAX;
    for (const size_t mark : *marks) least = std::min(least, std::abs(TotalBytes(front[i]) - TotalBytes(front[mark])));
    return least;
  };
  while (!candidates.empty() && chosen->size() < kMostSets) {
    // From the back: fewer bytes first.
    auto best = candidates.end() - 1;
    for (auto it = best; it != candidates.begin();) {
      --it;
      if (distance(*it) > distance(*best)) best = it;
    }
    marks->push_back(*best);
    chosen->push_back(*best);
    candidates.erase(best);
  }
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

std::vector<SavedSet> ParetoFront(const DifferentiatedGraph& block, const NodeCost& cost, size_t most_enumerated) {
  const Choice choice(block, cost);
  return choice.size() <= most_enumerated ? choice.Enumerate() : choice.Hull();
}

std::vector<SavedSet> SavedSets(const DifferentiatedGraph& block, const NodeCost& cost) {
  const std::vector<SavedSet> front = ParetoFront(block, cost);
  const std::vector<size_t> hull = HullOf(front);
  const auto is_an_end = [&](size_t i) { return front[i].recompute.nodes.empty() || front[i].values.empty(); };
  std::vector<size_t> marks;  // what is there already: the ends, and what is chosen
  std::vector<size_t> first, rest;
  for (size_t i = 0; i < front.size(); ++i) {
    const bool on_hull = std::find(hull.begin(), hull.end(), i) != hull.end();
    (is_an_end(i) ? marks : on_hull ? first : rest).push_back(i);
  }
  std::vector<size_t> chosen;
  Spread(front, first, &marks, &chosen);
  Spread(front, rest, &marks, &chosen);
  std::vector<SavedSet> sets = {SelectiveSet(block, cost)};
  for (const size_t i : chosen) {
    if (front[i].values != sets[0].values || front[i].recompute.nodes != sets[0].recompute.nodes) {
      sets.push_back(front[i]);
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const SavedSet& a, const SavedSet& b) {
    return std::make_pair(-a.kept_bytes, a.cost) < std::make_pair(-b.kept_bytes, b.cost);
  });
  return sets;
}

}  // namespace reprise
