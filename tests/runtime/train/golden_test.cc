// Models against Transformers' numbers in float64 (tests/fixtures/make_golden.py), within the bounds that PyTorch's own
// float32 and bfloat16 runs set.
#include "tests/tools/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"
#include "tests/tools/slow_machine.h"
#include "tests/tools/test_device.h"

namespace reprise {
namespace {

using ::reprise::testing::FillBatch;
using ::reprise::testing::Golden;
using ::reprise::testing::LoadGolden;

constexpr int kGoldenSteps = 5;

// In exact arithmetic the gradient of key biases is zero: a shift of all scores that softmax does not see.
std::pair<size_t, size_t> KeyBias(const std::string& name, size_t elements) {
  if (absl::EndsWith(name, "attention.attention.key.bias")) return {0, elements};
  if (!absl::EndsWith(name, "attn.c_attn.bias")) return {0, 0};
  return {elements / 3, elements / 3 * 2};
}

void ExpectGradient(const std::string& name, const std::vector<float>& actual, const std::vector<double>& expected,
                    bool bf16) {
  const auto [key_begin, key_end] = KeyBias(name, actual.size());
  double largest = 0, dot = 0, square_a = 0, square_b = 0, error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (i >= key_begin && i < key_end) {
      EXPECT_LE(std::abs(actual[i]), bf16 ? 1e-2 : 1e-7) << name << " " << i;
      continue;
    }
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
    dot += actual[i] * expected[i];
    square_a += static_cast<double>(actual[i]) * actual[i];
    square_b += expected[i] * expected[i];
  }
  if (key_end - key_begin == actual.size()) return;
  if (bf16) {
    EXPECT_GE(dot / std::sqrt(square_a * square_b), 0.999) << name;
  } else {
    EXPECT_LE(error, 5e-6 * largest) << name;
  }
}

void ExpectParameter(const std::string& name, const std::vector<float>& actual, const std::vector<double>& expected) {
  const auto [key_begin, key_end] = KeyBias(name, actual.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    // ViT's are rounding alone in five steps of Adam: two images a rank come to 2.7e-3, one or three to less than 2e-3.
    const double key_bound = key_end == actual.size() ? 3e-3 : 2e-3;
    const double bound = i >= key_begin && i < key_end ? key_bound : 1e-3;
    ASSERT_NEAR(actual[i], expected[i], bound) << name << " element " << i;
  }
}

void ExpectTensors(const Golden& g, TrainingJob& job, const std::string& prefix, double factor, bool bf16) {
  for (const Parameter* parameter : job.parameters()) {
    std::vector<float> actual(static_cast<size_t>(parameter->elements()));
    if (prefix == "grad.") {
      ASSERT_TRUE(job.ReadGradient(*parameter, factor, absl::MakeSpan(actual)).ok());
      ExpectGradient(parameter->name(), actual, g.Numbers(prefix + parameter->name()), bf16);
    } else {
      ASSERT_TRUE(job.ReadParameter(*parameter, absl::MakeSpan(actual)).ok());
      ExpectParameter(parameter->name(), actual, g.Numbers(prefix + parameter->name()));
    }
  }
}

// checkpoint=auto in half of the way from the smallest budget to that of keeping everything, on a machine on which
// recompute and copies cost about alike.
void PlanInHalfTheMemory(const Model& model, int ranks, const std::string& device, JobOptions* options) {
  const Hardware machine = testing::SlowMachine(/*link=*/5e8, /*host=*/5e8);
  KernelSet kernels(testing::KernelsOfDevice(device));
  JobOptions everything = *options;
  everything.checkpoint = "none";
  everything.offload_activations = false;
  const auto whole = MakeJobPlan(model, everything, ranks, kernels);
  ASSERT_TRUE(whole.ok()) << whole.status();
  options->times = std::make_shared<const MachineTimes>(EstimateTimes(machine, (*whole)->schedule.kernels, ranks));
  options->memory_budget_bytes = (*whole)->device_bytes() * 2;
  const auto widest = MakeJobPlan(model, *options, ranks, kernels);
  ASSERT_TRUE(widest.ok()) << widest.status();
  const auto smallest = FindSmallestBudgets(**widest, kernels);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  options->memory_budget_bytes = (smallest->offloaded + (*whole)->device_bytes()) / 2;
}

struct GoldenCase {
  std::string name;
  std::string checkpoint;
  int ranks = 1;
  DType dtype = DType::kFloat32;
  bool offload = false;
  std::string device = testing::TestDevice();
};

std::string CaseName(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string policy = info.param.checkpoint;
  std::replace(policy.begin(), policy.end(), ':', '_');
  return absl::StrCat(info.param.name, "_", policy, info.param.offload ? "_offload" : "", "_R", info.param.ranks,
                      info.param.dtype == DType::kBFloat16 ? "_bf16" : "_fp32");
}

class GoldenTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, MatchesTransformers) {
  const GoldenCase& c = GetParam();
  const bool bf16 = c.dtype == DType::kBFloat16;
  const Golden g = LoadGolden(c.name);
  JobOptions options;
  options.micro_batch = (g.rows + c.ranks - 1) / c.ranks;
  options.sequence_length = g.length;
  options.dtype = c.dtype;
  options.checkpoint = c.checkpoint;
  options.offload_activations = c.offload;
  if (c.checkpoint == "auto") PlanInHalfTheMemory(g.source.model, c.ranks, c.device, &options);
  testing::RunRanks(c.ranks, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(g.source.model, options, {.device = c.device}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    const absl::Status set = job.SetParameters(g.Parameters());
    ASSERT_TRUE(set.ok()) << set;
    const int64_t counted = FillBatch(g, communicator.rank() * options.micro_batch, options.micro_batch, job);
    const std::vector<double> losses = g.Numbers("losses");
    const double total = g.counted_labels();
    for (int step = 0; step < kGoldenSteps; ++step) {
      const auto result = job.Step({.step = step, .learning_rate = 1e-2, .counted_labels = counted});
      ASSERT_TRUE(result.ok()) << result.status();
      const double bound = bf16 ? 2e-3 : step == 0 ? 2e-6 : 2e-5;
      // Only the first step of bf16 has a bound: later ones follow parameters that have drifted apart.
      if (!bf16 || step == 0) {
        EXPECT_NEAR(result->loss, losses[static_cast<size_t>(step)], bound * losses[0]) << "step " << step;
      }
      if (step == 0) {
        ExpectTensors(g, job, "grad.", 1 / total, bf16);
        const double norm = g.Numbers("gradient_norm")[0];
        EXPECT_NEAR(result->gradient_norm, norm, (bf16 ? 1e-2 : 5e-6) * norm);
      }
    }
    if (!bf16) ExpectTensors(g, job, "param_after.", 0, bf16);
  });
}

std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> cases;
  for (const char* name : {"gpt2", "gpt2_deep", "llama_gqa", "llama_tied_rope3", "qwen2", "vit"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int ranks : {1, 2, 3}) {
        for (const char* policy : {"none", "all", "every:2", "every:3", "sqrt", "selective", "auto"}) {
          cases.push_back({name, policy, ranks, dtype,
                           std::string(policy) != "none" && std::string(policy) != "selective" && ranks == 2});
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(Cases()), CaseName);

#ifndef __SANITIZE_THREAD__
// The CUDA device over its stand-in (tests/tools/cuda).
std::vector<GoldenCase> CudaCases() {
  std::vector<GoldenCase> cases;
  for (const GoldenCase& c : Cases()) {
    const bool of_gpt2 = c.name == "gpt2" && c.ranks < 3;
    const bool of_others = c.checkpoint == "all" && c.ranks == 2;
    if (!of_gpt2 && !of_others) continue;
    cases.push_back(c);
    cases.back().device = "cuda";
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(OnCuda, GoldenTest, ::testing::ValuesIn(CudaCases()), CaseName);
#endif

}  // namespace
}  // namespace reprise
