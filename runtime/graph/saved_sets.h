// Saved sets: which values of a block's forward to keep for its backward, where keeping everything takes too much
// memory and keeping nothing too much time. What is missing is made again from what is kept and the boundary.
//
// A set is given by the forward nodes that run again. Every other value that backward or those nodes read must be kept;
// a value is so never both kept and made again, and the outputs of one node are kept together.
//
//   const SavedSet set = SelectiveSet(block, DefaultNodeCost(block.graph));
//   set.name;       // "linear, attention": whose outputs are kept
//   set.recompute;  // the nodes that run again; none: nothing is missing
#ifndef REPRISE_RUNTIME_GRAPH_SAVED_SETS_H_
#define REPRISE_RUNTIME_GRAPH_SAVED_SETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/gradient.h"
#include "runtime/graph/routine.h"

namespace reprise {

struct SavedSet {
  std::string name;                  // operations whose outputs are kept, in order, each once
  std::vector<ValueId> values;       // kept from forward to backward, in order of production
  Routine recompute;                 // makes the rest of what backward reads
  std::vector<bool> reads_boundary;  // by boundary index: recompute or backward reads it
  int64_t kept_bytes = 0;            // of `values`, each rounded up as the arena does
  int64_t boundary_bytes = 0;        // of the boundary inputs that are read, likewise
  int64_t cost = 0;                  // of `recompute`
  bool selective = false;            // the set of --checkpoint=selective
};

// What it costs to run a node again: nanoseconds or anything else that adds up; not negative.
using NodeCost = std::function<int64_t(int32_t node)>;

// Nanoseconds of a modest machine: its products at 100 GFLOP/s, its memory at 10 GB/s. Keeps a pointer to `graph`.
NodeCost DefaultNodeCost(const Graph& graph);

// The set that keeps of `candidates` (values of the forward) what backward, or what has to run again, reads.
SavedSet MakeSavedSet(const DifferentiatedGraph& block, const std::vector<ValueId>& candidates, const NodeCost& cost);

// Keeps the outputs of attention and of products, and runs the rest again (Korthikanti et al. 2022 keep all but
// attention's insides; here those are never stored, and what is cheap to make is what remains).
SavedSet SelectiveSet(const DifferentiatedGraph& block, const NodeCost& cost);

// The Pareto front of kept bytes (with the boundary where it is read) against cost, by falling bytes: no set has fewer
// bytes at no more cost. From keeping everything to running all again, where those are on it. Exact by enumeration
// where at most 16 nodes can run again; beyond that the points of its lower convex hull, each a minimum cut. The bytes
// that a step needs for a moment are not weighed: whatever is kept, backward has all that it reads before it.
std::vector<SavedSet> ParetoFront(const DifferentiatedGraph& block, const NodeCost& cost, size_t most_enumerated = 16);

// What a planner chooses from beside keeping everything and nothing: at most eight sets of the front, and the selective
// set, by falling bytes. Those of the lower convex hull come first; where there are more than room is for, the one
// that lies farthest in bytes from all that are chosen, again and again, ties to fewer bytes. Deterministic.
std::vector<SavedSet> SavedSets(const DifferentiatedGraph& block, const NodeCost& cost);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_SAVED_SETS_H_
