// Runs a graph node by node with the reference kernels, each value in memory of its own: the plain way to what a
// schedule does in an arena.
//
//   GraphRunner run(graph);
//   run.Set(x, values);
//   run.Run(nodes);
//   run.Get(y);
#ifndef REPRISE_TESTS_TOOLS_GRAPH_RUNNER_H_
#define REPRISE_TESTS_TOOLS_GRAPH_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/tensor/kernel.h"

namespace reprise::testing {

// Floating-point values of the graph are float64; labels and tokens int32.
class GraphRunner {
 public:
  explicit GraphRunner(const Graph& graph);

  void Set(ValueId value, const std::vector<double>& elements);
  std::vector<double> Get(ValueId value) const;
  void Run(const std::vector<int32_t>& nodes);
  void RunAll();

  StepValues step = {};

 private:
  const Graph& graph_;
  std::vector<std::vector<std::byte>> memory_;  // by value
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_GRAPH_RUNNER_H_
