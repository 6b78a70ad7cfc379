// Minimum cut of a small directed graph (Ford and Fulkerson 1956; shortest augmenting paths, Edmonds and Karp 1972).
//
//   MinCut cut(3);                     // nodes 0, 1, 2, beside the source and the sink
//   cut.Add(MinCut::kSource, 0, MinCut::kInfinite);
//   cut.Add(0, 1, 2.5);
//   cut.Add(1, MinCut::kSink, 4);
//   cut.SourceSide();                  // {true, false, false}: the smallest of the best source sides
#ifndef REPRISE_RUNTIME_GRAPH_MIN_CUT_H_
#define REPRISE_RUNTIME_GRAPH_MIN_CUT_H_

#include <cstddef>
#include <vector>

namespace reprise {

class MinCut {
 public:
  static constexpr int kSource = -1;
  static constexpr int kSink = -2;
  static constexpr double kInfinite = 1e300;

  explicit MinCut(int nodes) : edges_from_(static_cast<size_t>(nodes) + 2) {}

  // Paid where `from` is on the source's side and `to` on the sink's; not negative.
  void Add(int from, int to, double capacity);

  // By node: whether it is on the source's side of a cheapest cut.
  std::vector<bool> SourceSide();

 private:
  struct Edge {
    size_t to = 0;
    double left = 0;  // capacity that is not used
  };

  size_t Index(int node) const { return node == kSource ? 0 : node == kSink ? 1 : static_cast<size_t>(node) + 2; }
  // By node: the edge by which a shortest path from the source reaches it; -1: none does.
  std::vector<int> Reach() const;

  std::vector<Edge> edges_;  // each followed by its reverse
  std::vector<std::vector<int>> edges_from_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_MIN_CUT_H_
