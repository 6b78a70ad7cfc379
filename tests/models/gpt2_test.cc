// GPT-2's blocks in float64: the backward that differentiation makes, against finite differences of the forward.
#include "models/gpt2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "tests/tools/graph_runner.h"

namespace reprise {
namespace {

using ::reprise::testing::GraphRunner;

constexpr Gpt2Config kConfig{.vocab_size = 7, .n_positions = 5, .n_embd = 6, .n_layer = 1, .n_head = 2};

Program Traced(double dropout) {
  Gpt2Config config = kConfig;
  config.dropout = dropout;
  return TraceModel(Gpt2(config), {.sequences = 2, .sequence_length = 5, .dtype = DType::kFloat64});
}

// Random numbers for everything that a block is given.
struct Given {
  explicit Given(const Graph& graph) : graph(graph) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal(0.0, 0.5);
    std::uniform_int_distribution<int> token(0, 6);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (value.role == ValueRole::kComputed) continue;
      std::vector<double> elements(static_cast<size_t>(value.type.elements()));
      const bool data = value.role == ValueRole::kData;
      for (double& element : elements) element = data ? token(random) : normal(random);
      if (data && value.index == static_cast<int32_t>(DataKind::kLabels)) elements[3] = -100;
      values.emplace_back(static_cast<ValueId>(v), std::move(elements));
    }
  }

  const Graph& graph;
  std::vector<std::pair<ValueId, std::vector<double>>> values;
};

// Sum of outputs, each weighted with the gradient handed back for it; the loss with one.
double Functional(const Graph& graph, const Given& given) {
  GraphRunner run(graph);
  for (const auto& [value, elements] : given.values) run.Set(value, elements);
  run.RunAll();
  double sum = 0;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const std::vector<double> output = run.Get(graph.outputs[k]);
    const ValueId weight = graph.Find(ValueRole::kGradient, static_cast<int32_t>(k));
    const std::vector<double> weights = weight == kNoValue ? std::vector<double>{1.0} : run.Get(weight);
    for (size_t i = 0; i < output.size(); ++i) sum += output[i] * weights[i];
  }
  return sum;
}

void ExpectGradientsMatch(const ProgramGraph& block) {
  const Graph& graph = block.block.graph;
  Given given(graph);
  GraphRunner run(graph);
  for (const auto& [value, elements] : given.values) run.Set(value, elements);
  run.RunAll();
  int checked = 0;
  for (auto& [value, elements] : given.values) {
    const Value& v = graph.values[static_cast<size_t>(value)];
    const auto index = static_cast<size_t>(v.index);
    ValueId gradient = kNoValue;
    if (v.role == ValueRole::kBoundary) gradient = block.block.boundary_gradients[index];
    if (v.role == ValueRole::kParameter) gradient = block.block.parameter_gradients[index];
    if (gradient == kNoValue) continue;
    const std::vector<double> actual = run.Get(gradient);
    for (size_t i = 0; i < elements.size(); i += 1 + elements.size() / 40) {
      constexpr double kStep = 1e-5;
      const double saved = elements[i];
      elements[i] = saved + kStep;
      const double above = Functional(graph, given);
      elements[i] = saved - kStep;
      const double below = Functional(graph, given);
      elements[i] = saved;
      EXPECT_NEAR(actual[i], (above - below) / (2 * kStep), 1e-7 * (1 + std::abs(actual[i])))
          << "%" << value << " " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 10);
}

TEST(Gpt2, GradientsOfTheEmbedding) { ExpectGradientsMatch(Traced(0).graph(0)); }
TEST(Gpt2, GradientsOfALayer) { ExpectGradientsMatch(Traced(0).graph(1)); }
TEST(Gpt2, GradientsOfTheHead) { ExpectGradientsMatch(Traced(0).graph(2)); }
TEST(Gpt2, GradientsOfALayerWithDropout) { ExpectGradientsMatch(Traced(0.2).graph(1)); }
TEST(Gpt2, GradientsOfTheEmbeddingWithDropout) { ExpectGradientsMatch(Traced(0.2).graph(0)); }

TEST(Gpt2, EqualLayersShareOneGraph) {
  Gpt2Config config = kConfig;
  config.n_layer = 9;
  const Program program = TraceModel(Gpt2(config), {.sequences = 1, .sequence_length = 5});
  EXPECT_EQ(program.graphs.size(), 3U);
  EXPECT_EQ(program.blocks.size(), 11U);
  EXPECT_EQ(MakeUnits(program, 1).units[9].parameters[0].parameter->name(), "transformer.h.8.ln_1.weight");
}

TEST(Gpt2, TheHeadUsesTheTokenTable) {
  const Program program = Traced(0);
  const Unit root = MakeUnits(program, 1).units[0];
  ASSERT_EQ(root.parameters.size(), 4U);  // the table stands once
  EXPECT_EQ(root.parameters[0].parameter->name(), "transformer.wte.weight");
  EXPECT_EQ(root.parameters[1].parameter->name(), "transformer.wpe.weight");
  EXPECT_EQ(root.parameters[2].parameter->name(), "transformer.ln_f.weight");
  const std::vector<const Parameter*>& head = program.blocks.back().parameters;
  EXPECT_EQ(std::count(head.begin(), head.end(), root.parameters[0].parameter), 1);
}

TEST(Gpt2, EvaluationHasNoDropoutAndNoBackward) {
  Gpt2Config config = kConfig;
  config.dropout = 0.5;
  const Program program = TraceModel(Gpt2(config), {.sequences = 1, .sequence_length = 5, .training = false});
  for (const auto& graph : program.graphs) {
    EXPECT_EQ(static_cast<size_t>(graph->block.forward_nodes), graph->block.graph.nodes.size());
    EXPECT_EQ(graph->block.graph.ToString().find("dropout("), std::string::npos);
  }
}

TEST(Gpt2, RefusesSizesThatDoNotFit) {
  EXPECT_TRUE(Validate(kConfig).ok());
  Gpt2Config config = kConfig;
  config.n_head = 4;
  EXPECT_EQ(Validate(config).message(),
            "model_config: n_head=4 does not divide n_embd=6; choose a number of heads that does");
  config = kConfig;
  config.n_layer = 0;
  EXPECT_EQ(Validate(config).code(), absl::StatusCode::kInvalidArgument);
  config = kConfig;
  config.dropout = 1;
  EXPECT_EQ(Validate(config).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise
