// Attention of bfloat16 on the matrix unit. Probabilities and gradients of scores are rounded to bfloat16 between two
// products, so results are compared with float64 sums within the bound that follows: half a unit of each rounded
// factor, times what it multiplies. Where all factors are small integers, nothing is rounded and bits must be equal.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/tensor/operation.h"
#include "runtime/tensor/philox.h"
#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

constexpr DType kType = DType::kBFloat16;
constexpr double kUnit = 0x1p-8;  // of rounding to bfloat16, relative
constexpr double kFloat = 1e-5;   // of float32 sums and exponentials, relative to what is added

const KernelRun kRun = {.kind = KernelKind::kCuda, .step = {.seed = 7, .step = 11}, .block = 2, .first_sequence = 5};

struct Case {
  int64_t length = 1;
  int64_t size = 8;
  int causal = 1;
  double dropout = 0;
  int64_t heads = 2;
  int64_t key_value_heads = 0;  // 0: q, k and v packed
  int64_t document = 0;         // rows of each; the last of a sequence is shorter. 0: they are not told apart
  int64_t sequences = 2;

  int64_t rows() const { return sequences * length; }
  int64_t groups() const { return key_value_heads == 0 ? heads : key_value_heads; }
  Attributes attributes() const {
    Attributes attributes =
        Attributes().Set("heads", heads).Set("sequence_length", length).Set("causal", causal).Set("dropout", dropout);
    attributes.Set("salt", 3);
    if (document > 0) attributes.Set("documents", 1);
    return key_value_heads == 0 ? attributes : attributes.Set("key_value_heads", key_value_heads);
  }
  KernelSpec Forward() const {
    std::vector<TensorType> inputs = {{kType, {rows(), 3 * heads * size}}};
    const TensorType key{kType, {rows(), key_value_heads * size}};
    if (key_value_heads > 0) inputs = {{kType, {rows(), heads * size}}, key, key};
    if (document > 0) inputs.push_back({DType::kInt32, {rows()}});
    return MakeSpec("attention", inputs, attributes());
  }
  KernelSpec Gradient() const {
    const KernelSpec forward = Forward();
    std::vector<TensorType> inputs = forward.inputs;
    inputs.insert(inputs.end(), {forward.outputs[0], forward.outputs[1], forward.outputs[0]});
    return MakeSpec("attention_gradient", inputs, attributes());
  }

  // Element of part 0 (q), 1 (k) or 2 (v), of a query head, in the tensor or gradient that TensorOf says.
  size_t TensorOf(int part) const { return key_value_heads == 0 ? 0 : static_cast<size_t>(part); }
  size_t Index(int part, int64_t row, int64_t head, int64_t c) const {
    if (key_value_heads == 0) return static_cast<size_t>(((row * 3 + part) * heads + head) * size + c);
    if (part == 0) return static_cast<size_t>((row * heads + head) * size + c);
    return static_cast<size_t>((row * groups() + head / (heads / groups())) * size + c);
  }
  int64_t First(int64_t i) const { return document == 0 ? 0 : i / document * document; }
  int64_t End(int64_t i) const { return causal != 0 ? i + 1 : length; }
  double Kept(int64_t sequence, int64_t head, int64_t i, int64_t j) const {
    if (dropout == 0) return 1;
    const RandomKey key = MakeRandomKey(kRun.step.seed, kRun.step.step, OperationNumber(kRun.block, 3));
    const int64_t group = (head * length + i) * ((length + 3) / 4) + j / 4;
    const auto bits = RandomBits(key, kRun.first_sequence + sequence, group);
    return bits[static_cast<size_t>(j % 4)] < DropThreshold(dropout) ? 0 : 1 / (1 - dropout);
  }
};

Values Elements(int64_t count, uint64_t seed) {
  Values values = RandomValues(count, seed, -2, 2);
  for (double& value : values) value = Stored(value, kType);
  return values;
}

// -limit .. limit.
Values Integers(int64_t count, uint64_t seed, int64_t limit) {
  Values values = RandomIntegers(count, seed, 2 * limit + 1);
  for (double& value : values) value -= static_cast<double>(limit);
  return values;
}

// Inputs of the forward operation: of `elements(count, seed)`, and document starts.
template <typename Function>
std::vector<Values> InputsOf(const Case& c, const Function& elements) {
  std::vector<Values> inputs;
  for (const TensorType& type : c.Forward().inputs) {
    if (type.dtype != DType::kInt32) {
      inputs.push_back(elements(type.elements(), 1 + inputs.size()));
      continue;
    }
    inputs.emplace_back();
    for (int64_t row = 0; row < c.rows(); ++row) inputs.back().push_back(static_cast<double>(c.First(row % c.length)));
  }
  return inputs;
}

// A sum in float64, and how far from it the kernel's may be.
struct Sum {
  double value = 0;
  double error = 0;

  // Adds factor * with, where the factor is rounded, and is itself off by so much.
  void Add(double factor, double with, double off = 0) {
    value += factor * with;
    error += (kUnit * std::abs(factor) + off) * std::abs(with) + kFloat * std::abs(factor * with);
  }
};

using Sums = std::vector<Sum>;

void ExpectWithin(const Values& actual, const Sums& expected, double scale, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int reported = 0;
  for (size_t i = 0; i < actual.size() && reported < 3; ++i) {
    const double value = expected[i].value * scale;
    const double bound = expected[i].error * scale + kUnit * std::abs(value) + 1e-6;
    if (std::abs(actual[i] - value) <= bound) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << actual[i] << ", expected " << value << " +- " << bound;
    ++reported;
  }
}

// All that attention and its gradient give, by loops.
struct Plain {
  Sums o;
  Values lse;
  std::vector<Sums> gradients;

  void Forward(const Case& c, const std::vector<Values>& inputs);
  void Gradient(const Case& c, const std::vector<Values>& inputs, const Values& stored_o, const Values& d_o);
};

double Dot(const Case& c, const Values& a, size_t first_a, const Values& b, size_t first_b) {
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(c.size); ++i) sum += a[first_a + i] * b[first_b + i];
  return sum;
}

double Score(const Case& c, const std::vector<Values>& inputs, int64_t head, int64_t query, int64_t key) {
  return Dot(c, inputs[c.TensorOf(0)], c.Index(0, query, head, 0), inputs[c.TensorOf(1)], c.Index(1, key, head, 0)) /
         std::sqrt(static_cast<double>(c.size));
}

void Plain::Forward(const Case& c, const std::vector<Values>& inputs) {
  o.assign(static_cast<size_t>(c.rows() * c.heads * c.size), {});
  const Values& v = inputs[c.TensorOf(2)];
  for (int64_t b = 0; b < c.sequences; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t i = 0; i < c.length; ++i) {
        const int64_t row = b * c.length;
        double total = 0;
        for (int64_t j = c.First(i); j < c.End(i); ++j) total += std::exp(Score(c, inputs, h, row + i, row + j));
        lse.push_back(std::log(total));
        for (int64_t j = c.First(i); j < c.End(i); ++j) {
          const double p = std::exp(Score(c, inputs, h, row + i, row + j)) / total * c.Kept(b, h, i, j);
          Sum* sums = &o[static_cast<size_t>(((row + i) * c.heads + h) * c.size)];
          for (int64_t f = 0; f < c.size; ++f) sums[f].Add(p, v[c.Index(2, row + j, h, f)]);
        }
      }
    }
  }
}

void Plain::Gradient(const Case& c, const std::vector<Values>& inputs, const Values& stored_o, const Values& d_o) {
  for (const TensorType& type : c.Gradient().outputs) gradients.emplace_back(static_cast<size_t>(type.elements()));
  const double scale = 1 / std::sqrt(static_cast<double>(c.size));
  const auto input = [&](int part, int64_t r, int64_t h, int64_t f) {
    return inputs[c.TensorOf(part)][c.Index(part, r, h, f)];
  };
  for (int64_t b = 0; b < c.sequences; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t i = 0; i < c.length; ++i) {
        const int64_t row = b * c.length;
        const auto first = static_cast<size_t>(((row + i) * c.heads + h) * c.size);
        const double delta = Dot(c, d_o, first, stored_o, first);
        for (int64_t j = c.First(i); j < c.End(i); ++j) {
          const double p = std::exp(Score(c, inputs, h, row + i, row + j) -
                                    lse[static_cast<size_t>((b * c.heads + h) * c.length + i)]);
          const double kept = c.Kept(b, h, i, j);
          const double dp = kept * Dot(c, d_o, first, inputs[c.TensorOf(2)], c.Index(2, row + j, h, 0));
          const double ds = p * (dp - delta) * scale;
          const double off = kFloat * p * scale * (std::abs(dp) + std::abs(delta) + kept * static_cast<double>(c.size));
          for (int64_t f = 0; f < c.size; ++f) {
            gradients[c.TensorOf(0)][c.Index(0, row + i, h, f)].Add(ds, input(1, row + j, h, f), off);
            gradients[c.TensorOf(1)][c.Index(1, row + j, h, f)].Add(ds, input(0, row + i, h, f), off);
            gradients[c.TensorOf(2)][c.Index(2, row + j, h, f)].Add(p * kept, d_o[first + static_cast<size_t>(f)]);
          }
        }
      }
    }
  }
}

void ExpectWithinBounds(const Case& c) {
  const std::string what = c.Gradient().ToString();
  std::vector<Values> inputs = InputsOf(c, Elements);
  Plain plain;
  plain.Forward(c, inputs);
  const std::vector<Values> outputs = RunKernel(c.Forward(), inputs, kRun);
  ExpectWithin(outputs[0], plain.o, 1, what + " o");
  ExpectClose(outputs[1], plain.lse, {kFloat, kFloat}, what + " lse");
  const Values d_o = Elements(c.rows() * c.heads * c.size, 9);
  plain.Gradient(c, inputs, outputs[0], d_o);
  Values lse = plain.lse;
  inputs.insert(inputs.end(), {outputs[0], lse, d_o});
  const std::vector<Values> gradients = RunKernel(c.Gradient(), inputs, kRun);
  for (size_t i = 0; i < gradients.size(); ++i) {
    ExpectWithin(gradients[i], plain.gradients[i], 1, what + " gradient " + std::to_string(i));
  }
}

TEST(MatrixAttention, OddLengthsAndSizes) {
  for (const int causal : {0, 1}) {
    for (const int64_t length : {1, 15, 16, 17, 63, 64, 65, 130}) ExpectWithinBounds({length, 64, causal});
    for (const int64_t size : {8, 32, 40, 72, 96, 128}) ExpectWithinBounds({65, size, causal, 0, 1});
  }
}

TEST(MatrixAttention, DropoutDocumentsAndGroupsOfHeads) {
  ExpectWithinBounds({130, 64, 1, 0.2, 1});
  ExpectWithinBounds({67, 64, 0, 0.2, 4, 2});
  ExpectWithinBounds({65, 128, 1, 0.1, 2, 1});
  ExpectWithinBounds({130, 16, 1, 0.1, 4, 2, 7});
  ExpectWithinBounds({130, 64, 1, 0, 2, 1, 50});
  ExpectWithinBounds({150, 96, 1, 0.3, 1, 1, 64});
  ExpectWithinBounds({70, 24, 1, 0.1, 2, 0, 33});
}

// With q or k zero all scores are; with lse zero too, probabilities are 1. All gradients are sums of integers, as the
// reference's.
TEST(MatrixAttention, GradientsOfIntegersAreExact) {
  for (const int64_t size : {16, 64}) {
    for (const Case& c :
         {Case{130, size, 1, 0.5, 2, 1, 37, 1}, Case{67, size, 0, 0.5, 2, 2, 0, 2}, Case{97, size, 1, 0, 4, 2, 0, 1}}) {
      for (const size_t zero : {0, 1}) {
        std::vector<Values> inputs = InputsOf(c, [](int64_t count, uint64_t seed) { return Integers(count, seed, 1); });
        for (double& value : inputs[zero]) value = 0;
        const int64_t elements = c.rows() * c.heads * c.size;
        inputs.insert(inputs.end(), {Integers(elements, 8, 1), Values(static_cast<size_t>(c.rows() * c.heads)),
                                     Integers(elements, 9, 1)});
        KernelRun run = kRun;
        const std::vector<Values> gradients = RunKernel(c.Gradient(), inputs, run);
        run.kind = KernelKind::kReference;
        const std::vector<Values> expected = RunKernel(c.Gradient(), inputs, run);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(SameBits(gradients[i], expected[i])) << c.Gradient().ToString() << " gradient " << i;
        }
      }
    }
  }
}

// Equal scores: outputs are means, of which only the end is rounded.
TEST(MatrixAttention, MeansAreRoundedOnce) {
  for (const int64_t size : {8, 64, 128}) {
    const Case c = {130, size, 1, 0.25, 2, 1, 60, 1};
    std::vector<Values> inputs = InputsOf(c, Elements);
    for (double& value : inputs[0]) value = 0;
    Plain plain;
    plain.Forward(c, inputs);
    const std::vector<Values> outputs = RunKernel(c.Forward(), inputs, kRun);
    for (size_t i = 0; i < outputs[0].size(); ++i) {
      const double value = plain.o[i].value;
      EXPECT_NEAR(outputs[0][i], value, kUnit * std::abs(value) + 1e-5) << i;
    }
    ExpectClose(outputs[1], plain.lse, {1e-6, 1e-6}, "lse");
  }
}

// Scores of half a million: exponentials neither overflow nor vanish.
TEST(MatrixAttention, LargeScores) {
  const Case c = {.length = 2, .size = 8, .causal = 0, .heads = 1, .sequences = 1};
  Values qkv(48);
  for (const size_t row : {0, 24}) {
    qkv[row] = 1024;
    qkv[row + 8] = row == 0 ? 1024 : -1024;
    qkv[row + 16] = row == 0 ? 1 : 2;
  }
  const std::vector<Values> outputs = RunKernel(c.Forward(), {qkv}, kRun);
  ExpectClose(outputs[0], {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, {1.0 / 128}, "o");
  ExpectClose(outputs[1], Values(2, 1048576 / std::sqrt(8.0)), {1e-6}, "lse");
}

// What one sequence holds does not reach another, nor one query's row another's, though they share tiles.
TEST(MatrixAttention, NaNStaysInItsRow) {
  const Case c = {.length = 70, .size = 40, .causal = 0, .heads = 2, .key_value_heads = 2};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Values> inputs = InputsOf(c, Elements);
  const std::vector<Values> expected = RunKernel(c.Forward(), inputs, kRun);
  constexpr int64_t kRow = 20;
  inputs[0][c.Index(0, kRow, 1, 3)] = nan;                                    // a query of the first sequence
  for (const size_t part : {1, 2}) inputs[part][c.Index(1, 70, 0, 0)] = nan;  // a key of the second
  const std::vector<Values> outputs = RunKernel(c.Forward(), inputs, kRun);
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (int64_t head = 0; head < 2; ++head) {
      const bool reached = (row == kRow && head == 1) || (row >= 70 && head == 0);
      for (int64_t f = 0; f < c.size; ++f) {
        const size_t index = c.Index(0, row, head, f);
        EXPECT_TRUE(reached ? std::isnan(outputs[0][index]) : outputs[0][index] == expected[0][index]) << index;
      }
      const auto item = static_cast<size_t>((row / 70 * 2 + head) * 70 + row % 70);
      EXPECT_TRUE(reached ? std::isnan(outputs[1][item]) : outputs[1][item] == expected[1][item]) << item;
    }
  }
}

// Keys in the future of all queries of a block are not read.
TEST(MatrixAttention, TilesOfTheFutureAreSkipped) {
  const Case c = {.length = 200, .size = 128, .heads = 1, .key_value_heads = 1, .sequences = 1};
  std::vector<Values> inputs = InputsOf(c, Elements);
  const std::vector<Values> expected = RunKernel(c.Forward(), inputs, kRun);
  for (const size_t part : {1, 2}) {
    for (size_t i = 128 * 128; i < inputs[part].size(); ++i) {
      inputs[part][i] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  const std::vector<Values> outputs = RunKernel(c.Forward(), inputs, kRun);
  for (size_t i = 0; i < 128 * 128; ++i) EXPECT_EQ(outputs[0][i], expected[0][i]) << i;
}

}  // namespace
}  // namespace reprise::testing
