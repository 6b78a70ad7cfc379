// Gradient rules of single operations, fused as in a block, in float64 against finite differences of the forward.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/graph/fusion.h"
#include "runtime/graph/gradient.h"
#include "runtime/graph/tensor.h"
#include "tests/tools/graph_runner.h"

namespace reprise {
namespace {

using ::reprise::testing::GraphRunner;

// A function of float64 parameters of given shapes, with random numbers for them and for the output's gradient.
class Function {
 public:
  using Body = std::function<Tensor(const std::vector<Tensor>&)>;

  Function(const std::vector<Shape>& shapes, const Body& body) {
    std::vector<Tensor> parameters;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const TensorType type{DType::kFloat64, shapes[i]};
      parameters.emplace_back(&trace_, trace_.graph.AddValue(type, ValueRole::kParameter, static_cast<int32_t>(i)));
      values_.push_back(Random(type.elements()));
    }
    trace_.graph.outputs = {body(parameters).value()};
    differentiated_ = Differentiate(Fuse(trace_.graph), false);
    weights_ = Random(graph().type(graph().outputs[0]).elements());
  }

  const Graph& graph() const { return differentiated_.graph; }

  void ExpectGradientsMatchFiniteDifferences() {
    GraphRunner run(graph());
    SetAll(run);
    run.RunAll();
    for (size_t p = 0; p < values_.size(); ++p) {
      const std::vector<double> gradient = run.Get(differentiated_.parameter_gradients[p]);
      for (size_t i = 0; i < values_[p].size(); ++i) {
        EXPECT_NEAR(gradient[i], Slope(&values_[p][i]), 1e-7 * (1 + std::abs(gradient[i])))
            << "parameter " << p << " element " << i << " of\n"
            << graph().ToString();
      }
    }
  }

 private:
  std::vector<double> Random(int64_t count) {
    std::vector<double> elements(static_cast<size_t>(count));
    for (double& element : elements) element = normal_(random_);
    return elements;
  }

  void SetAll(GraphRunner& run) {
    run.step = {.seed = 3, .step = 5};
    for (size_t p = 0; p < values_.size(); ++p) {
      run.Set(graph().Find(ValueRole::kParameter, static_cast<int32_t>(p)), values_[p]);
    }
    run.Set(graph().Find(ValueRole::kGradient, 0), weights_);
    if (const ValueId positions = graph().Find(ValueRole::kData, 0); positions != kNoValue) {
      run.Set(positions, {0, 1, 2, 0, 0, 1});
    }
  }

  double Value() {
    GraphRunner run(graph());
    SetAll(run);
    std::vector<int32_t> nodes(static_cast<size_t>(differentiated_.forward_nodes));
    std::iota(nodes.begin(), nodes.end(), 0);
    run.Run(nodes);
    const std::vector<double> output = run.Get(graph().outputs[0]);
    double sum = 0;
    for (size_t i = 0; i < output.size(); ++i) sum += output[i] * weights_[i];
    return sum;
  }

  double Slope(double* element) {
    constexpr double kStep = 1e-5;
    const double at = *element;
    *element = at + kStep;
    const double above = Value();
    *element = at - kStep;
    const double below = Value();
    *element = at;
    return (above - below) / (2 * kStep);
  }

  Trace trace_;
  DifferentiatedGraph differentiated_;
  std::vector<std::vector<double>> values_;
  std::vector<double> weights_;
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_{0.0, 0.7};
};

using Inputs = std::vector<Tensor>;

TEST(OperationGradients, RmsNorm) {
  Function function({{3, 4}, {4}}, [](const Inputs& in) { return RmsNorm(in[0], in[1], 1e-2); });
  function.ExpectGradientsMatchFiniteDifferences();
}

// The sum is read twice: its gradient by the residual path goes through the norm's kernel.
TEST(OperationGradients, AddRmsNormWithTheSumReadAgain) {
  Function function({{3, 4}, {3, 4}, {4}}, [](const Inputs& in) {
    const Tensor sum = in[0] + in[1];
    return sum + RmsNorm(sum, in[2], 1e-2);
  });
  EXPECT_EQ(function.graph().nodes[0].operation, "add_rms_norm");
  function.ExpectGradientsMatchFiniteDifferences();
}

TEST(OperationGradients, ExactGeluAloneAndBehindABias) {
  Function alone({{3, 4}}, [](const Inputs& in) { return GeluExact(in[0]); });
  alone.ExpectGradientsMatchFiniteDifferences();
  Function biased({{3, 4}, {4, 5}, {5}}, [](const Inputs& in) { return GeluExact(Linear(in[0], in[1], in[2])); });
  EXPECT_EQ(biased.graph().nodes[1].operation, "bias_gelu_erf");
  biased.ExpectGradientsMatchFiniteDifferences();
}

TEST(OperationGradients, SiluMultiply) {
  Function function({{3, 5}, {3, 5}}, [](const Inputs& in) { return SiluMultiply(in[0], in[1]); });
  function.ExpectGradientsMatchFiniteDifferences();
}

TEST(OperationGradients, RotaryByCountedAndGivenPositions) {
  const RotaryOptions options = {.heads = 2, .sequence_length = 3};
  Function counted({{6, 8}}, [&](const Inputs& in) { return Rotary(in[0], options); });
  counted.ExpectGradientsMatchFiniteDifferences();
  Function given({{6, 8}}, [&](const Inputs& in) {
    Trace* trace = in[0].trace();
    const ValueId positions = trace->graph.AddValue({DType::kInt32, {6}}, ValueRole::kData);
    return Rotary(in[0], Tensor(trace, positions), options);
  });
  given.ExpectGradientsMatchFiniteDifferences();
}

TEST(OperationGradients, PrependedAndFirstRow) {
  Function prepended({{4, 3}, {1, 3}, {3, 3}}, [](const Inputs& in) { return PrependRow(in[0], in[1], in[2]); });
  prepended.ExpectGradientsMatchFiniteDifferences();
  Function first({{6, 3}}, [](const Inputs& in) { return FirstRow(in[0], 3); });
  first.ExpectGradientsMatchFiniteDifferences();
}

TEST(OperationGradients, AttentionOfGroupedHeads) {
  const AttentionOptions options = {.heads = 4, .sequence_length = 3, .dropout = 0.1, .key_value_heads = 2};
  Function function({{6, 8}, {6, 4}, {6, 4}},
                    [&](const Inputs& in) { return Attention(in[0], in[1], in[2], options); });
  function.ExpectGradientsMatchFiniteDifferences();
}

}  // namespace
}  // namespace reprise
