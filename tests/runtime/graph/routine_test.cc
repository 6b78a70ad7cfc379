#include "runtime/graph/routine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/gpt2.h"
#include "runtime/model/program.h"

namespace reprise {
namespace {

constexpr int64_t kRows = 2 * 4;  // B * T
constexpr int64_t kWidth = 6;

const ProgramGraph& LayerGraph() {
  static const Program* const program =
      new Program(TraceModel(Gpt2({.vocab_size = 11, .n_positions = 4, .n_embd = kWidth, .n_layer = 2, .n_head = 2}),
                             {.sequences = 2, .sequence_length = 4}));
  return program->graph(1);
}

std::vector<std::string> Names(const Routine& routine) {
  std::vector<std::string> names;
  for (const int32_t node : routine.nodes)
    names.push_back(LayerGraph().block.graph.nodes[static_cast<size_t>(node)].operation);
  return names;
}

using List = std::vector<std::string>;

TEST(Routine, ForwardOfALayerIsFused) {
  EXPECT_EQ(Names(LayerGraph().routines.forward), (List{"layer_norm", "linear", "attention", "linear", "add_layer_norm",
                                                        "linear", "bias_gelu", "linear", "add"}));
}

TEST(Routine, RecomputeLeavesOutTheLastProduct) {
  EXPECT_EQ(Names(LayerGraph().routines.recompute),
            (List{"layer_norm", "linear", "attention", "linear", "add_layer_norm", "linear", "bias_gelu"}));
  EXPECT_EQ(Names(LayerGraph().routines.recompute_through), Names(LayerGraph().routines.forward));
}

TEST(Routine, FlopsAreThoseOfTheProducts) {
  const int64_t c = kWidth;
  const int64_t products = 2 * kRows * (c * 3 * c + c * c + c * 4 * c + 4 * c * c);
  const int64_t last_product = 2 * kRows * 4 * c * c;
  const BlockRoutines& r = LayerGraph().routines;
  EXPECT_EQ(r.forward.flops - r.recompute.flops, last_product);
  EXPECT_GT(r.forward.flops, products);  // and attention
  EXPECT_LT(r.forward.flops - products, products / 2);
  EXPECT_GE(r.backward.flops, 2 * products);  // both gradients of each product
}

TEST(Routine, SavedIsWhatBackwardReadsOfTheForward) {
  int64_t elements = 0;
  for (const ValueId value : LayerGraph().routines.saved) elements += LayerGraph().block.graph.type(value).elements();
  // Of the widths in C: two norms, q k v, attention, sum, MLP before and after GELU. The boundary is not counted, and
  // the statistics are a number a row and norm, and one a row and head.
  EXPECT_EQ(elements, kRows * kWidth * (1 + 3 + 1 + 1 + 1 + 4 + 4) + kRows * (2 + 2 + 2));
  EXPECT_EQ(LayerGraph().routines.reads_boundary, std::vector<bool>{true});
}

}  // namespace
}  // namespace reprise
