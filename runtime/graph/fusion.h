// Fusion: joins operations that one kernel does in one pass over memory. It runs once on a traced graph, before
// anything is derived from it, so that forward, recompute and backward replay the same kernels.
//
//   linear(x, w, b); gelu        ->  linear(x, w); bias_gelu(., b)
//   linear(x, w, b); gelu_erf    ->  linear(x, w); bias_gelu_erf(., b)
//   add(a, b); layer_norm        ->  add_layer_norm(a, b)
//   add(a, b); rms_norm          ->  add_rms_norm(a, b)
//   dropout(x); add(r, .)        ->  dropout_add(x, r)
#ifndef REPRISE_RUNTIME_GRAPH_FUSION_H_
#define REPRISE_RUNTIME_GRAPH_FUSION_H_

#include "runtime/graph/graph.h"

namespace reprise {

// The same function with the patterns above replaced, and values renumbered. Fused kernels round as their parts do.
Graph Fuse(const Graph& graph);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_FUSION_H_
