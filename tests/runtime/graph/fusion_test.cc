#include "runtime/graph/fusion.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/graph/tensor.h"

namespace reprise {
namespace {

std::vector<std::string> Operations(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.operation);
  return names;
}

class FusionTest : public ::testing::Test {
 protected:
  Tensor Input(Shape shape) {
    return {&trace_, trace_.graph.AddValue({DType::kFloat32, std::move(shape)}, ValueRole::kBoundary, next_++)};
  }
  Graph FusedTo(Tensor output) {
    trace_.graph.outputs = {output.value()};
    return Fuse(trace_.graph);
  }

  Trace trace_;
  int32_t next_ = 0;
};

using Names = std::vector<std::string>;

TEST_F(FusionTest, BiasJoinsGelu) {
  const Tensor y = Gelu(Linear(Input({4, 3}), Input({3, 5}), Input({5})));
  EXPECT_EQ(Operations(FusedTo(y)), (Names{"linear", "bias_gelu"}));
}

TEST_F(FusionTest, BiasJoinsTheExactGelu) {
  const Tensor y = GeluExact(Linear(Input({4, 3}), Input({3, 5}), Input({5})));
  EXPECT_EQ(Operations(FusedTo(y)), (Names{"linear", "bias_gelu_erf"}));
}

TEST_F(FusionTest, AProductThatOthersReadKeepsItsBias) {
  const Tensor h = Linear(Input({4, 3}), Input({3, 5}), Input({5}));
  EXPECT_EQ(Operations(FusedTo(Gelu(h) + h)), (Names{"linear", "gelu", "add"}));
}

TEST_F(FusionTest, GeluWithoutBiasStays) {
  EXPECT_EQ(Operations(FusedTo(Gelu(Linear(Input({4, 3}), Input({3, 5}))))), (Names{"linear", "gelu"}));
}

TEST_F(FusionTest, ResidualJoinsNormAndStaysReadable) {
  const Tensor x = Input({4, 3}) + Input({4, 3});
  const Graph fused = FusedTo(x + LayerNorm(x, Input({3}), Input({3}), 1e-5));
  ASSERT_EQ(Operations(fused), (Names{"add_layer_norm", "add"}));
  // The sum, which the last add reads, is the first output of the fused node.
  EXPECT_EQ(fused.nodes[1].inputs[0], fused.nodes[0].outputs[0]);
  EXPECT_EQ(fused.nodes[1].inputs[1], fused.nodes[0].outputs[1]);
}

TEST_F(FusionTest, ResidualJoinsRmsNormAndStaysReadable) {
  const Tensor x = Input({4, 3}) + Input({4, 3});
  const Graph fused = FusedTo(x + RmsNorm(x, Input({3}), 1e-5));
  ASSERT_EQ(Operations(fused), (Names{"add_rms_norm", "add"}));
  EXPECT_EQ(fused.nodes[1].inputs[0], fused.nodes[0].outputs[0]);
  EXPECT_EQ(fused.nodes[1].inputs[1], fused.nodes[0].outputs[1]);
}

TEST_F(FusionTest, DropoutJoinsTheResidual) {
  const Tensor y = Input({4, 3}) + Dropout(Input({4, 3}), 0.1, 4);
  EXPECT_EQ(Operations(FusedTo(y)), (Names{"dropout_add"}));
}

TEST_F(FusionTest, NormTakesTheAddBeforeDropoutCan) {
  const Tensor x = Input({4, 3}) + Dropout(Input({4, 3}), 0.1, 4);
  EXPECT_EQ(Operations(FusedTo(LayerNorm(x, Input({3}), Input({3}), 1e-5))), (Names{"dropout", "add_layer_norm"}));
}

TEST_F(FusionTest, SaltsKeepTheirNumbers) {
  const Tensor y = Dropout(Dropout(Input({4, 3}), 0.1, 4) + Input({4, 3}), 0.2, 4);
  const Graph fused = FusedTo(y);
  EXPECT_EQ(fused.nodes.back().attributes.Int("salt"), 2);
}

}  // namespace
}  // namespace reprise
