// Program: every block of a model traced for one shape, fused and differentiated. Takes no memory for data.
//
//   Program program = TraceModel(Gpt2(config), {.sequences = 4, .sequence_length = 128, .dtype = DType::kFloat32});
//   program.graphs.size();   // 3 for GPT-2: embedding, layer, head; equal layers share one
#ifndef REPRISE_RUNTIME_MODEL_PROGRAM_H_
#define REPRISE_RUNTIME_MODEL_PROGRAM_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/gradient.h"
#include "runtime/graph/routine.h"
#include "runtime/graph/saved_sets.h"
#include "runtime/model/block.h"

namespace reprise {

struct BatchShape {
  int64_t sequences = 1;          // B: of a rank's micro-batch
  int64_t sequence_length = 1;    // T
  DType dtype = DType::kFloat32;  // of activations and gathered parameters
  bool training = true;
};

struct ProgramGraph {
  DifferentiatedGraph block;  // not training: forward only
  BlockRoutines routines;
  std::vector<SavedSet> saved_sets;  // of a layer in training: LayerPlan::set is an index; one is selective

  int32_t selective_set() const;  // index; -1: no sets were chosen
};

struct ProgramBlock {
  std::string name;                          // "embedding", "layer 0", ..., "head"
  int32_t graph = 0;                         // into Program::graphs
  std::vector<const Parameter*> parameters;  // by the graph's parameter index
  std::vector<bool> trained;                 // likewise; false: frozen, without a gradient

  bool trains_any() const { return std::find(trained.begin(), trained.end(), true) != trained.end(); }
};

// Bytes of each kind of data of one micro-batch, by DataKind; 0: no block reads it.
using DataBytes = std::array<int64_t, kDataKindCount>;

struct Program {
  BatchShape shape;
  DataBytes data_bytes = {};
  std::vector<std::shared_ptr<const ProgramGraph>> graphs;
  std::vector<ProgramBlock> blocks;
  // The first block that has a trained parameter: those before it have no backward, and no gradient flows to them.
  int32_t first_backward = 0;
  std::vector<std::shared_ptr<const Module>> keep_alive;  // owns the parameters

  const ProgramGraph& graph(size_t block) const { return *graphs[static_cast<size_t>(blocks[block].graph)]; }
  size_t layer_count() const { return blocks.size() - 2; }
  std::string ToString() const;  // graphs, which block uses which, and which parameters are trained where some are not
};

// Cost of running a node of a graph again, for the choice of saved sets.
using ProgramNodeCost = std::function<int64_t(const ProgramGraph& graph, int32_t node)>;

// Chooses the saved sets of every layer's graph anew, by the costs given; those before are gone, and plans that name
// them by index with them.
void ChooseSavedSets(const ProgramNodeCost& cost, Program* program);

// With saved sets by DefaultNodeCost. The model must have a first and a last block; the last returns the loss. Some
// parameter must be trained.
Program TraceModel(const Model& model, const BatchShape& shape);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_PROGRAM_H_
