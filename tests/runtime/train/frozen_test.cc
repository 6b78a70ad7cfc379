// Frozen parameters and low-rank adapters, against Transformers' gradients of the whole model (tests/fixtures): what is
// frozen changes no other gradient, takes no memory for gradients and optimizer state, and an adapter's gradients are
// products of the weight's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/model/low_rank.h"
#include "runtime/train/training_job.h"
#include "tests/tools/golden.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::FillBatch;
using ::reprise::testing::Golden;
using ::reprise::testing::LoadGolden;
using Trained = std::function<bool(const Parameter&)>;

constexpr double kBound = 5e-6;  // of a tensor's largest gradient; PyTorch's own float32 stays within 2e-6

struct Outcome {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;  // of the mean loss
};

// One step from `parameters` (empty: the fixture's), learning rate 0.
Outcome RunStep(const Golden& f, const Model& model, const std::string& checkpoint, int ranks,
                const ParameterSource& parameters = nullptr) {
  JobOptions options;
  options.micro_batch = (f.rows + ranks - 1) / ranks;
  options.sequence_length = f.length;
  options.checkpoint = checkpoint;
  Outcome outcome;
  testing::RunRanks(ranks, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(model, options, {.threads = 1}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    ASSERT_TRUE(job.SetParameters(parameters ? parameters : f.Parameters()).ok());
    const int64_t counted = FillBatch(f, communicator.rank() * options.micro_batch, options.micro_batch, job);
    const auto result = job.Step({.learning_rate = 0, .counted_labels = counted});
    ASSERT_TRUE(result.ok()) << result.status();
    for (const Parameter* p : job.parameters()) {
      if (!job.IsTrained(*p)) continue;
      std::vector<float> values(static_cast<size_t>(p->elements()));
      ASSERT_TRUE(job.ReadGradient(*p, 1 / f.counted_labels(), absl::MakeSpan(values)).ok());
      if (communicator.rank() == 0) outcome.gradients[p->name()] = values;
    }
    if (communicator.rank() == 0) outcome.loss = result->loss;
  });
  return outcome;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, const std::string& name,
                double bound = kBound) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0) << name << " has no gradient";
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], bound * largest) << name << " element " << i;
  }
}

// In exact arithmetic the gradient of key biases is zero; what is there is rounding.
bool IsKeyBias(const std::string& name) { return absl::EndsWith(name, "attn.c_attn.bias"); }

struct FrozenCase {
  std::string name;
  std::string fixture;
  Trained trained;
};

std::vector<FrozenCase> FrozenCases() {
  const auto holds = [](std::vector<std::string> parts) {
    return [parts](const Parameter& p) {
      return std::any_of(parts.begin(), parts.end(),
                         [&](const std::string& part) { return absl::StrContains(p.name(), part); });
    };
  };
  const auto lacks = [&](std::vector<std::string> parts) {
    return [held = holds(std::move(parts))](const Parameter& p) { return !held(p); };
  };
  return {
      {"embeddings", "gpt2", lacks({"wte", "wpe"})},
      {"norms", "gpt2", lacks({"ln_"})},
      {"biases", "gpt2", lacks({".bias"})},
      {"first_layers", "gpt2", lacks({"wte", "wpe", "h.0.", "h.1."})},
      {"all_but_the_last_norm", "gpt2", holds({"ln_f"})},
      {"middle_of_deep", "gpt2_deep", holds({"h.7.", "h.8."})},
      {"head_and_norms", "llama_gqa", lacks({"lm_head", "norm"})},
      {"all_but_the_head", "llama_gqa", holds({"lm_head"})},
      {"queries", "qwen2", holds({"q_proj"})},
      {"keys_and_values_of_one_layer", "llama_tied_rope3",
       holds({"layers.1.self_attn.k_proj", "layers.1.self_attn.v_proj"})},
      {"gates", "llama_tied_rope3", lacks({"gate_proj", "up_proj"})},
  };
}

class FrozenTest : public ::testing::TestWithParam<FrozenCase> {};

TEST_P(FrozenTest, WhatIsTrainedHasTransformersGradients) {
  const Golden f = LoadGolden(GetParam().fixture);
  Model model = f.source.model;
  model.trained = GetParam().trained;
  for (const int ranks : {1, 2}) {
    for (const char* policy : {"none", "all", "every:2", "selective"}) {
      SCOPED_TRACE(absl::StrCat(policy, " R=", ranks));
      const Outcome outcome = RunStep(f, model, policy, ranks);
      EXPECT_NEAR(outcome.loss, f.Numbers("loss")[0], 2e-6 * f.Numbers("loss")[0]);
      ASSERT_FALSE(outcome.gradients.empty());
      for (const auto& [name, gradient] : outcome.gradients) {
        if (!IsKeyBias(name)) ExpectNear(gradient, f.Numbers("grad." + name), name);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FrozenTest, ::testing::ValuesIn(FrozenCases()),
                         [](const auto& info) { return absl::StrCat(info.param.fixture, "_", info.param.name); });

std::unique_ptr<JobPlan> PlanOf(const Model& model, const JobOptions& options, int ranks) {
  KernelSet kernels({.threads = 1});
  auto plan = MakeJobPlan(model, options, ranks, kernels);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

int64_t BytesOf(const Schedule& schedule, ItemKind kind, const std::string& part) {
  int64_t bytes = 0;
  for (const Item& item : schedule.items) {
    if (item.kind == kind && absl::StrContains(item.name, part)) bytes += item.bytes;
  }
  return bytes;
}

TEST(Frozen, NoMemoryForGradientsAndOptimizerStateAndNoBackwardBelow) {
  const Golden f = LoadGolden("gpt2");
  JobOptions options;
  options.micro_batch = 2;
  options.sequence_length = f.length;
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    options.sharding = sharding;
    Model model = f.source.model;
    const auto whole = PlanOf(model, options, 2);
    model.trained = [](const Parameter& p) {
      return absl::StrContains(p.name(), "h.2.") || absl::StrContains(p.name(), "ln_f");
    };
    const auto plan = PlanOf(model, options, 2);
    const Schedule& schedule = plan->schedule;
    EXPECT_EQ(BytesOf(schedule, ItemKind::kState, "frozen optimizer state"), 0);
    EXPECT_EQ(BytesOf(schedule, ItemKind::kGradient, "frozen"), 0);
    EXPECT_EQ(BytesOf(schedule, ItemKind::kGradient, "layer 0"), 0);
    EXPECT_LT(BytesOf(schedule, ItemKind::kState, "optimizer state"),
              BytesOf(whole->schedule, ItemKind::kState, "optimizer state"));
    for (const Instruction& i : schedule.instructions) {
      if (i.kind == InstructionKind::kBackward) {
        EXPECT_EQ(i.block, 3);  // the last layer's: blocks are 0 to 4
      }
      if (i.kind == InstructionKind::kReduce || i.kind == InstructionKind::kUpdate) {
        EXPECT_TRUE(plan->units.units[static_cast<size_t>(i.unit)].trained);
      }
    }
    // What those below keep for backward is nothing.
    EXPECT_LT(plan->device_bytes(), whole->device_bytes());
  }
}

// --- Adapters --------------------------------------------------------------------------------------------------------

// [rows, columns], row-major.
using Matrix = std::vector<double>;

Matrix Product(const Matrix& a, const Matrix& b, size_t rows, size_t inner, size_t columns) {
  Matrix c(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < inner; ++k) {
      for (size_t j = 0; j < columns; ++j) c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a, size_t rows, size_t columns) {
  Matrix t(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

// Values of a parameter of an adapter, by name; `b_scale` 0 as at the start of training.
std::vector<float> AdapterValues(const Parameter& p, double b_scale) {
  std::vector<float> values(static_cast<size_t>(p.elements()));
  const bool is_b = absl::EndsWith(p.name(), "lora_B.weight");
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = std::sin(0.7 * static_cast<double>(i) + static_cast<double>(p.name().size()));
    values[i] = static_cast<float>(v * (is_b ? b_scale : 0.3));
  }
  return values;
}

struct AdapterCase {
  std::string fixture;
  std::vector<std::string> targets;
};

class AdapterTest : public ::testing::TestWithParam<AdapterCase> {
 protected:
  AdapterTest() : f_(LoadGolden(GetParam().fixture)), model_(f_.source.model) {
    const absl::Status added = AddLowRankAdapters({.rank = kRank, .alpha = 5, .targets = GetParam().targets}, &model_);
    EXPECT_TRUE(added.ok()) << added;
  }

  ParameterSource Source(double b_scale) const {
    return [this, b_scale](const Parameter& p, int64_t first, absl::Span<float> out) {
      if (!IsOfAdapter(model_, p)) return f_.Parameters()(p, first, out);
      const std::vector<float> values = AdapterValues(p, b_scale);
      std::copy_n(values.begin() + first, out.size(), out.begin());
      return absl::OkStatus();
    };
  }

  // The model without adapters whose weights are W + s B A.
  ParameterSource Merged(double b_scale) const {
    return [this, b_scale](const Parameter& p, int64_t first, absl::Span<float> out) {
      RETURN_IF_ERROR(f_.Parameters()(p, first, out));
      const auto found = model_.adapters.find(&p);
      if (found == model_.adapters.end()) return absl::OkStatus();
      const Matrix update = Update(*found->second, b_scale);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(out[i] + update[static_cast<size_t>(first) + i]);
      }
      return absl::OkStatus();
    };
  }

  // s B A, laid out as the weight is.
  static Matrix Update(const LowRankAdapter& adapter, double b_scale) {
    const size_t in = static_cast<size_t>(adapter.a().shape()[1]);
    const size_t out = static_cast<size_t>(adapter.b().shape()[0]);
    const auto wide = [&](const Parameter& p) {
      const std::vector<float> values = AdapterValues(p, b_scale);
      return Matrix(values.begin(), values.end());
    };
    Matrix update = Product(wide(adapter.b()), wide(adapter.a()), out, kRank, in);
    for (double& value : update) value *= kScale;
    return adapter.layout() == WeightLayout::kOutIn ? update : Transposed(update, out, in);
  }

  // Gradients of A and B follow from the weight's own, G [out, in]: s B^T G and s G A^T.
  void ExpectProducts(const Outcome& outcome, double b_scale, double bound,
                      const std::function<Matrix(const std::string&)>& weight_gradient) const {
    for (const auto& [weight, adapter] : model_.adapters) {
      const size_t in = static_cast<size_t>(adapter->a().shape()[1]);
      const size_t out = static_cast<size_t>(adapter->b().shape()[0]);
      Matrix g = weight_gradient(weight->name());
      if (adapter->layout() == WeightLayout::kInOut) g = Transposed(g, in, out);
      const std::vector<float> a = AdapterValues(adapter->a(), b_scale);
      const std::vector<float> b = AdapterValues(adapter->b(), b_scale);
      Matrix db = Product(g, Transposed(Matrix(a.begin(), a.end()), kRank, in), out, in, kRank);
      Matrix da = Product(Transposed(Matrix(b.begin(), b.end()), out, kRank), g, kRank, out, in);
      for (double& value : db) value *= kScale;
      for (double& value : da) value *= kScale;
      ExpectNear(outcome.gradients.at(adapter->b().name()), db, adapter->b().name(), bound);
      const std::vector<float>& actual = outcome.gradients.at(adapter->a().name());
      if (b_scale != 0) {
        ExpectNear(actual, da, adapter->a().name(), bound);
      } else {
        EXPECT_EQ(actual, std::vector<float>(actual.size(), 0)) << adapter->a().name();
      }
    }
  }

  static constexpr size_t kRank = 4;
  static constexpr double kScale = 5.0 / 4;
  const Golden f_;
  Model model_;
};

TEST_P(AdapterTest, AtTheStartTheLossIsTransformers) {
  for (const int ranks : {1, 2}) {
    for (const char* policy : {"none", "all"}) {
      SCOPED_TRACE(absl::StrCat(policy, " R=", ranks));
      const Outcome outcome = RunStep(f_, model_, policy, ranks, Source(0));
      EXPECT_NEAR(outcome.loss, f_.Numbers("loss")[0], 2e-6 * f_.Numbers("loss")[0]);
      EXPECT_EQ(outcome.gradients.size(), 2 * model_.adapters.size());  // and of nothing else
      ExpectProducts(outcome, 0, 2e-5, [&](const std::string& name) { return f_.Numbers("grad." + name); });
    }
  }
}

TEST_P(AdapterTest, IsTheModelWithTheUpdatedWeights) {
  const Outcome merged = RunStep(f_, f_.source.model, "none", 1, Merged(0.1));
  const Outcome outcome = RunStep(f_, model_, "none", 1, Source(0.1));
  EXPECT_NEAR(outcome.loss, merged.loss, 4e-6 * merged.loss);
  EXPECT_GT(std::abs(merged.loss - f_.Numbers("loss")[0]), 1e-4);  // the adapters do something
  ExpectProducts(outcome, 0.1, 4e-5, [&](const std::string& name) {
    const std::vector<float>& gradient = merged.gradients.at(name);
    return Matrix(gradient.begin(), gradient.end());
  });
}

INSTANTIATE_TEST_SUITE_P(All, AdapterTest,
                         ::testing::Values(AdapterCase{"gpt2", {"c_attn", "mlp.c_proj"}},
                                           AdapterCase{"gpt2", {"all-linear"}},
                                           AdapterCase{"llama_gqa", {"q_proj", "v_proj"}},
                                           AdapterCase{"qwen2", {"all-linear"}}),
                         [](const auto& info) { return absl::StrCat(info.param.fixture, "_", info.index); });

TEST(LowRank, NamesAreThoseOfPeft) {
  const Golden f = LoadGolden("llama_gqa");
  Model model = f.source.model;
  ASSERT_TRUE(AddLowRankAdapters({.rank = 2, .alpha = 2, .targets = {"layers.1.self_attn.q_proj"}}, &model).ok());
  ASSERT_EQ(model.adapters.size(), 1u);
  const LowRankAdapter& adapter = *model.adapters.begin()->second;
  EXPECT_EQ(adapter.a().name(), "model.layers.1.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(adapter.b().name(), "model.layers.1.self_attn.q_proj.lora_B.weight");
  EXPECT_EQ(adapter.a().shape(), (Shape{2, 40}));
  EXPECT_EQ(adapter.b().shape(), (Shape{40, 2}));
}

TEST(LowRank, RefusesWhatNamesNothing) {
  const Golden f = LoadGolden("gpt2");
  Model model = f.source.model;
  const absl::Status status = AddLowRankAdapters({.rank = 2, .alpha = 2, .targets = {"q_proj"}}, &model);
  EXPECT_EQ(status.message(),
            "lora_targets: gpt2 has no product called q_proj; it has attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj");
  EXPECT_FALSE(AddLowRankAdapters({.rank = 0, .alpha = 2, .targets = {"c_fc"}}, &model).ok());
  EXPECT_FALSE(AddLowRankAdapters({.rank = 2, .alpha = -1, .targets = {"c_fc"}}, &model).ok());
  EXPECT_FALSE(AddLowRankAdapters({.rank = 2, .alpha = 2, .targets = {}}, &model).ok());
}

}  // namespace
}  // namespace reprise
