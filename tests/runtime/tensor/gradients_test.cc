// Gradient operations against central differences of the forward operations, both in float64.
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr DType kF64 = DType::kFloat64;

TEST(EmbeddingGradient, MatchesFiniteDifferences) {
  const Attributes attributes = Attributes().Set("sequence_length", 3).Set("vocabulary", 5).Set("positions", 4);
  const KernelSpec forward = MakeSpec("embedding", {{DType::kInt32, {6}}, {kF64, {5, 3}}, {kF64, {4, 3}}}, attributes);
  const KernelSpec backward = MakeSpec("embedding_gradient", {{DType::kInt32, {6}}, {kF64, {6, 3}}}, attributes);
  const std::vector<Values> inputs = {{2, 0, 2, 2, 4, 0}, RandomValues(15, 1), RandomValues(12, 2)};
  ExpectGradientMatchesFiniteDifferences(forward, inputs, {1, 2}, [&](const auto& in, const auto&, const auto& d) {
    return RunKernel(backward, {in[0], d[0]});
  });
}

TEST(LayerNormGradient, MatchesFiniteDifferences) {
  const Attributes attributes = Attributes().Set("epsilon", 0.1);  // keeps the curvature of narrow rows small
  for (const int64_t width : {1, 2, 7}) {
    const TensorType x{kF64, {3, width}};
    const TensorType row{kF64, {width}};
    const TensorType statistic{kF64, {3}};
    const KernelSpec forward = MakeSpec("layer_norm", {x, row, row}, attributes);
    const KernelSpec backward = MakeSpec("layer_norm_gradient", {x, row, statistic, statistic, x}, attributes);
    const std::vector<Values> inputs = {RandomValues(3 * width, 1), RandomValues(width, 2), RandomValues(width, 3)};
    ExpectGradientMatchesFiniteDifferences(forward, inputs, {0, 1, 2},
                                           [&](const auto& in, const auto& out, const auto& d) {
                                             return RunKernel(backward, {in[0], in[1], out[1], out[2], d[0]});
                                           });
  }
}

// The sum has a reader of its own: its gradient is the residual of layer_norm_gradient.
TEST(AddLayerNormGradient, MatchesFiniteDifferences) {
  const Attributes attributes = Attributes().Set("epsilon", 1e-5);
  const TensorType x{kF64, {2, 5}};
  const TensorType row{kF64, {5}};
  const TensorType statistic{kF64, {2}};
  const KernelSpec forward = MakeSpec("add_layer_norm", {x, x, row, row}, attributes);
  const KernelSpec backward = MakeSpec("layer_norm_gradient", {x, row, statistic, statistic, x, x}, attributes);
  const std::vector<Values> inputs = {RandomValues(10, 1), RandomValues(10, 2), RandomValues(5, 3), RandomValues(5, 4)};
  ExpectGradientMatchesFiniteDifferences(
      forward, inputs, {0, 1, 2, 3},
      [&](const auto& in, const auto& out, const auto& d) -> std::vector<Values> {
        const std::vector<Values> g = RunKernel(backward, {out[0], in[2], out[2], out[3], d[1], d[0]});
        return {g[0], g[0], g[1], g[2]};
      },
      {.outputs = {0, 1}});
}

TEST(GeluGradient, MatchesFiniteDifferences) {
  const TensorType x{kF64, {4, 3}};
  for (const std::string form : {"gelu", "gelu_erf"}) {
    const KernelSpec backward = MakeSpec(form + "_gradient", {x, x});
    ExpectGradientMatchesFiniteDifferences(MakeSpec(form, {x}), {RandomValues(12, 1, -4, 4)}, {0},
                                           [&](const auto& in, const auto&, const auto& d) {
                                             return RunKernel(backward, {in[0], d[0]});
                                           });
  }
}

TEST(BiasGeluGradient, MatchesFiniteDifferences) {
  const TensorType h{kF64, {4, 3}};
  const TensorType b{kF64, {3}};
  for (const std::string form : {"bias_gelu", "bias_gelu_erf"}) {
    const KernelSpec backward = MakeSpec(form + "_gradient", {h, b, h});
    const std::vector<Values> inputs = {RandomValues(12, 1, -4, 4), RandomValues(3, 2)};
    ExpectGradientMatchesFiniteDifferences(MakeSpec(form, {h, b}), inputs, {0, 1},
                                           [&](const auto& in, const auto&, const auto& d) {
                                             return RunKernel(backward, {in[0], in[1], d[0]});
                                           });
  }
}

TEST(BiasGradient, MatchesFiniteDifferences) {
  const TensorType h{kF64, {4, 3}};
  const KernelSpec backward = MakeSpec("bias_gradient", {h});
  ExpectGradientMatchesFiniteDifferences(MakeSpec("bias_add", {h, {kF64, {3}}}),
                                         {RandomValues(12, 1), RandomValues(3, 2)}, {0, 1},
                                         [&](const auto&, const auto&, const auto& d) -> std::vector<Values> {
                                           return {d[0], RunKernel(backward, {d[0]})[0]};
                                         });
}

TEST(AddGradient, MatchesFiniteDifferences) {
  const TensorType x{kF64, {2, 3}};
  ExpectGradientMatchesFiniteDifferences(MakeSpec("add", {x, x}), {RandomValues(6, 1), RandomValues(6, 2)}, {0, 1},
                                         [](const auto&, const auto&, const auto& d) -> std::vector<Values> {
                                           return {d[0], d[0]};
                                         });
}

TEST(DropoutGradient, IsDropoutOfTheGradient) {
  const TensorType x{kF64, {6, 5}};
  const Attributes attributes = Attributes().Set("p", 0.4).Set("salt", 3).Set("sequence_length", 3);
  const KernelSpec dropout = MakeSpec("dropout", {x}, attributes);
  const KernelRun run = {.step = {.seed = 9, .step = 4}, .block = 2, .first_sequence = 10};
  ExpectGradientMatchesFiniteDifferences(
      dropout, {RandomValues(30, 1)}, {0},
      [&](const auto&, const auto&, const auto& d) { return RunKernel(dropout, {d[0]}, run); }, {.run = run});
  ExpectGradientMatchesFiniteDifferences(MakeSpec("dropout_add", {x, x}, attributes),
                                         {RandomValues(30, 1), RandomValues(30, 2)}, {0, 1},
                                         [&](const auto&, const auto&, const auto& d) -> std::vector<Values> {
                                           return {RunKernel(dropout, {d[0]}, run)[0], d[0]};
                                         },
                                         {.run = run});
}

}  // namespace
}  // namespace reprise::testing
