// Routines: the lists of nodes that a step runs of a differentiated block, and the values that pass between them.
//
//   BlockRoutines r = MakeRoutines(Differentiate(Fuse(trace.graph), true));
//   r.saved           // what backward reads of the forward: kept, or made again by r.recompute
#ifndef REPRISE_RUNTIME_GRAPH_ROUTINE_H_
#define REPRISE_RUNTIME_GRAPH_ROUTINE_H_

#include <cstdint>
#include <vector>

#include "runtime/graph/gradient.h"

namespace reprise {

struct Routine {
  std::vector<int32_t> nodes;  // in order
  int64_t flops = 0;
};

struct BlockRoutines {
  Routine forward;            // all of the forward
  Routine recompute;          // only what makes `saved`: the tail that nobody reads any more is left out
  Routine recompute_through;  // what makes `saved` and the block's outputs, for a block inside a segment
  Routine backward;
  // Values computed by the forward that backward reads, in order of production. Boundary inputs are not among them.
  std::vector<ValueId> saved;
  // Boundary inputs (by index) that recompute or backward reads.
  std::vector<bool> reads_boundary;
};

BlockRoutines MakeRoutines(const DifferentiatedGraph& block);

// The forward nodes without which `wanted` cannot be made from `have`, the boundary, the batch and the parameters.
Routine RoutineFor(const DifferentiatedGraph& block, const std::vector<ValueId>& wanted,
                   const std::vector<ValueId>& have = {});

// By boundary index: whether a node of one of `routines` reads it.
std::vector<bool> BoundaryReads(const Graph& graph, const std::vector<const Routine*>& routines);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_ROUTINE_H_
