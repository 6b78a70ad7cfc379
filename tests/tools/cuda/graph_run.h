// One run of a graph of the stand-in for CUDA's runtime: its lanes in an order drawn from a seed, as far as their
// events allow.
//
//   GraphRun run(exec->graph);
//   while (!run.GoOn(&random)) { ... }      // others go on meanwhile
#ifndef REPRISE_TESTS_TOOLS_CUDA_GRAPH_RUN_H_
#define REPRISE_TESTS_TOOLS_CUDA_GRAPH_RUN_H_

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/tools/cuda/streams.h"

namespace reprise::testing {

class GraphRun {
 public:
  explicit GraphRun(std::shared_ptr<const StandinGraph> graph) : graph_(std::move(graph)) {}

  // As far as it can; true at its end.
  bool GoOn(std::mt19937_64* random);

 private:
  bool IsReady(int node);

  const std::shared_ptr<const StandinGraph> graph_;
  std::map<StandinStream*, std::deque<int>> lanes_;
  std::vector<bool> done_;
  std::vector<bool> asked_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_GRAPH_RUN_H_
