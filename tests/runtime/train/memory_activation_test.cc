// What checkpointing and offload are for: `sqrt` against brute force over every:K, and how activation bytes grow with
// depth.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/memory_job.h"

namespace reprise {
namespace {

using ::reprise::testing::ActivationItems;
using ::reprise::testing::LargestLiveSum;

KernelSet& Kernels() {
  static KernelSet kernels({.threads = 1});
  return kernels;
}

std::unique_ptr<JobPlan> Plan(const Model& model, const JobOptions& options, int ranks) {
  auto plan = MakeJobPlan(model, options, ranks, Kernels());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : nullptr;
}

Model DeepGpt2(int64_t layers) {
  return Gpt2({.vocab_size = 64, .n_positions = 128, .n_embd = 32, .n_layer = layers, .n_head = 4});
}

JobOptions Options(const std::string& checkpoint) {
  JobOptions options;
  options.micro_batch = 4;
  options.sequence_length = 64;
  options.checkpoint = checkpoint;
  return options;
}

// Layers from the start of the first segment to the start of the second.
int64_t SegmentLayers(const JobPlan& plan) {
  int64_t k = 1;
  while (k < static_cast<int64_t>(plan.plan.layers.size()) &&
         !plan.plan.layers[static_cast<size_t>(k)].starts_segment) {
    ++k;
  }
  return k;
}

void ExpectSqrtIsTheBest(const Model& model, JobOptions options, int ranks) {
  options.checkpoint = "sqrt";
  const auto chosen = Plan(model, options, ranks);
  ASSERT_NE(chosen, nullptr);
  int64_t best_bytes = INT64_MAX;
  int64_t best_k = 0;
  for (int64_t k = 1; k <= model.layer_count(); ++k) {
    options.checkpoint = absl::StrCat("every:", k);
    const auto plan = Plan(model, options, ranks);
    ASSERT_NE(plan, nullptr);
    if (plan->schedule.device_bytes >= best_bytes) continue;
    best_bytes = plan->schedule.device_bytes;
    best_k = k;
  }
  EXPECT_EQ(chosen->schedule.device_bytes, best_bytes);
  EXPECT_EQ(SegmentLayers(*chosen), best_k);
}

class SqrtTest : public ::testing::TestWithParam<int> {};

TEST_P(SqrtTest, IsTheBestOfEveryK) {
  ExpectSqrtIsTheBest(DeepGpt2(GetParam()), Options(""), 1);
  ExpectSqrtIsTheBest(DeepGpt2(GetParam()), Options(""), 2);
}

INSTANTIATE_TEST_SUITE_P(Layers, SqrtTest, ::testing::Values(4, 8, 16, 32, 64));

// A chain of blocks whose boundaries and insides differ in size.
class UnevenEmbedding : public Block {
 public:
  explicit UnevenEmbedding(int64_t width)
      : Block("embedding"),
        tokens_(*this, "tokens", {16, width}, Initializer::Normal(0.1)),
        positions_(*this, "positions", {64, width}, Initializer::Normal(0.1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return {Embedding(t.Tokens(), t.Get(tokens_), t.Get(positions_), t.sequence_length())};
  }

 private:
  Parameter tokens_, positions_;
};

class UnevenLayer : public Block {
 public:
  UnevenLayer(const std::string& name, int64_t in, int64_t inner, int64_t out)
      : Block(name),
        expand_(*this, "expand", {in, inner}, Initializer::Normal(0.1)),
        bias_(*this, "bias", {inner}, Initializer::Constant(0)),
        project_(*this, "project", {inner, out}, Initializer::Normal(0.1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {Linear(Gelu(Linear(boundary[0], t.Get(expand_), t.Get(bias_))), t.Get(project_))};
  }

 private:
  Parameter expand_, bias_, project_;
};

class UnevenHead : public Block {
 public:
  explicit UnevenHead(int64_t width) : Block("head"), weight_(*this, "weight", {16, width}, Initializer::Normal(0.1)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(weight_), t.Labels())};
  }

 private:
  Parameter weight_;
};

Model UnevenModel(std::mt19937_64& random, int64_t layers) {
  const auto width = [&] { return static_cast<int64_t>(4 + random() % 60); };
  Model model;
  model.name = "uneven";
  model.vocabulary = 16;
  model.maximum_sequence = 64;
  int64_t in = width();
  model.blocks.push_back(std::make_shared<UnevenEmbedding>(in));
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t out = width();
    model.blocks.push_back(std::make_shared<UnevenLayer>(absl::StrCat("layer.", i), in, 4 * width(), out));
    in = out;
  }
  model.blocks.push_back(std::make_shared<UnevenHead>(in));
  return model;
}

TEST(Sqrt, IsTheBestOfEveryKOnBlocksOfUnevenSizes) {
  std::mt19937_64 random(7);
  for (const int64_t layers : {3, 5, 7, 9, 13, 16}) {
    SCOPED_TRACE(layers);
    ExpectSqrtIsTheBest(UnevenModel(random, layers), Options(""), static_cast<int>(1 + random() % 2));
  }
}

int64_t ActivationBytes(int64_t layers, const JobOptions& options, int ranks) {
  const auto plan = Plan(DeepGpt2(layers), options, ranks);
  return plan == nullptr ? 0 : LargestLiveSum(plan->schedule, ActivationItems);
}

// Four times the layers, twice the activations (Chen et al. 2016), where these and not gradients set the peak.
TEST(Sqrt, GrowsAsTheRoot) {
  JobOptions options = Options("sqrt");
  options.micro_batch = 8;
  options.sequence_length = 128;
  const int64_t shallow = ActivationBytes(16, options, 1);
  const int64_t deep = ActivationBytes(64, options, 1);
  EXPECT_GT(deep, shallow);
  EXPECT_LE(static_cast<double>(deep), 2.2 * static_cast<double>(shallow));
}

TEST(Offload, ActivationsOfAllDoNotGrowWithDepth) {
  JobOptions options = Options("all");
  options.offload_activations = true;
  for (const int ranks : {1, 2}) {
    EXPECT_EQ(ActivationBytes(12, options, ranks), ActivationBytes(48, options, ranks));
  }
  options.offload_activations = false;
  EXPECT_LT(ActivationBytes(12, options, 1), ActivationBytes(48, options, 1));
}

}  // namespace
}  // namespace reprise
