#include "runtime/graph/min_cut.h"

#include <algorithm>
#include <deque>

namespace reprise {
namespace {

// What is left of a capacity after many subtractions; less is nothing.
constexpr double kNothing = 1e-9;
constexpr int kRoot = 1 << 30;

}  // namespace

void MinCut::Add(int from, int to, double capacity) {
  edges_from_[Index(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({Index(to), capacity});
  edges_from_[Index(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({Index(from), 0});
}

std::vector<int> MinCut::Reach() const {
  std::vector<int> reached_by(edges_from_.size(), -1);
  reached_by[0] = kRoot;
  std::deque<size_t> next = {0};
  while (!next.empty()) {
    const size_t node = next.front();
    next.pop_front();
    for (const int e : edges_from_[node]) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.left <= kNothing || reached_by[edge.to] >= 0) continue;
      reached_by[edge.to] = e;
      next.push_back(edge.to);
    }
  }
  return reached_by;
}

std::vector<bool> MinCut::SourceSide() {
  std::vector<int> reached_by = Reach();
  for (; reached_by[1] >= 0; reached_by = Reach()) {
    double flow = kInfinite;
    for (size_t node = 1; node != 0; node = edges_[static_cast<size_t>(reached_by[node] ^ 1)].to) {
      flow = std::min(flow, edges_[static_cast<size_t>(reached_by[node])].left);
    }
    for (size_t node = 1; node != 0; node = edges_[static_cast<size_t>(reached_by[node] ^ 1)].to) {
      edges_[static_cast<size_t>(reached_by[node])].left -= flow;
      edges_[static_cast<size_t>(reached_by[node] ^ 1)].left += flow;
    }
  }
  std::vector<bool> side;
  for (size_t node = 2; node < reached_by.size(); ++node) side.push_back(reached_by[node] >= 0);
  return side;
}

}  // namespace reprise
