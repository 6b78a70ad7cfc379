#include "tests/tools/cuda/graph_run.h"

#include <algorithm>

bool StandinGraph::IsJoined(const StandinStream* lane) const {
  int last = -1;
  bool joined = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].lane == lane) last = static_cast<int>(i);
    if (nodes[i].lane == lane) joined = false;
    if (nodes[i].lane == origin && nodes[i].wait == last && last >= 0) joined = true;
  }
  return joined;
}

namespace reprise::testing {

bool GraphRun::IsReady(int node) {
  const StandinGraph::Node& n = graph_->nodes[static_cast<size_t>(node)];
  if (n.wait >= 0) return done_[static_cast<size_t>(n.wait)];
  if (!n.entry.ready) return true;
  const bool first = !asked_[static_cast<size_t>(node)];
  asked_[static_cast<size_t>(node)] = true;
  return n.entry.ready(first);
}

bool GraphRun::GoOn(std::mt19937_64* random) {
  if (done_.empty()) {
    done_.resize(graph_->nodes.size());
    asked_.resize(graph_->nodes.size());
    for (size_t i = 0; i < graph_->nodes.size(); ++i) lanes_[graph_->nodes[i].lane].push_back(static_cast<int>(i));
  }
  for (;;) {
    std::vector<std::deque<int>*> ready;
    for (auto& [lane, nodes] : lanes_) {
      if (!nodes.empty() && IsReady(nodes.front())) ready.push_back(&nodes);
    }
    if (ready.empty()) break;
    std::deque<int>& nodes = *ready[(*random)() % ready.size()];
    const int node = nodes.front();
    nodes.pop_front();
    const Entry& entry = graph_->nodes[static_cast<size_t>(node)].entry;
    if (entry.work) entry.work();
    done_[static_cast<size_t>(node)] = true;
  }
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.second.empty(); });
}

}  // namespace reprise::testing
