// What the streams, events and graphs of the stand-in for CUDA's runtime are made of (runtime.cc): queues of entries.
#ifndef REPRISE_TESTS_TOOLS_CUDA_STREAMS_H_
#define REPRISE_TESTS_TOOLS_CUDA_STREAMS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

struct StandinStream;
struct StandinGraph;

struct StandinEvent {
  std::shared_ptr<StandinEvent> self;  // until it is destroyed, which what stands on a stream may outlive
  int64_t issued = 0;                  // records asked for
  int64_t done = 0;                    // the latest that has come to pass
  std::chrono::steady_clock::time_point when;
  std::weak_ptr<StandinGraph> graph;  // in which it was last recorded
};

namespace reprise::testing {

struct Entry {
  std::function<void()> work = nullptr;           // empty for what waits
  std::shared_ptr<StandinEvent> event = nullptr;  // waited for
  int64_t record = 0;                             // which record of it
  // Asked until true; the argument: whether for the first time.
  std::function<bool(bool)> ready = nullptr;
  bool asked = false;
};

}  // namespace reprise::testing

// What streams were asked for while they were captured, in the order of the calls.
struct StandinGraph {
  struct Node {
    StandinStream* lane;
    reprise::testing::Entry entry;
    int wait = -1;  // for this node, which is a record
  };

  // Whether the origin waits for the end of the lane.
  bool IsJoined(const StandinStream* lane) const;

  StandinStream* origin = nullptr;
  std::vector<Node> nodes;
  std::map<const StandinEvent*, int> records;  // the latest node of each event
  std::set<StandinStream*> lanes;
};

struct StandinGraphExec {
  std::shared_ptr<const StandinGraph> graph;
};

struct StandinStream {
  uint64_t weight = 1;  // chance to go on, relative to the other streams
  std::deque<reprise::testing::Entry> entries;
  std::shared_ptr<StandinGraph> graph;  // while it is captured

  void Put(reprise::testing::Entry entry) {
    if (graph != nullptr) {
      graph->nodes.push_back({.lane = this, .entry = std::move(entry)});
    } else {
      entries.push_back(std::move(entry));
    }
  }
};

#endif  // REPRISE_TESTS_TOOLS_CUDA_STREAMS_H_
