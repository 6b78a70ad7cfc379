// A model that is not GPT-2: its head has no norm, so that the loss's kernel itself makes the boundary's gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/training_job.h"
#include "tests/tools/perturbed.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::Perturbed;

constexpr int64_t kVocabulary = 5, kWidth = 4, kLength = 3;

class SmallEmbedding : public Block {
 public:
  SmallEmbedding()
      : Block("embedding"),
        tokens_(*this, "tokens", {kVocabulary, kWidth}, Initializer::Normal(0.5)),
        positions_(*this, "positions", {kLength, kWidth}, Initializer::Normal(0.5)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return {Embedding(t.Tokens(), t.Get(tokens_), t.Get(positions_), t.sequence_length())};
  }
  const Parameter& tokens() const { return tokens_; }

 private:
  Parameter tokens_, positions_;
};

class SmallLayer : public Block {
 public:
  SmallLayer() : Block("layer"), weight_(*this, "weight", {kWidth, kWidth}, Initializer::Normal(0.5)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {boundary[0] + Gelu(Linear(boundary[0], t.Get(weight_)))};
  }

 private:
  Parameter weight_;
};

class BareHead : public Block {
 public:
  explicit BareHead(std::shared_ptr<const SmallEmbedding> embedding)
      : Block("head"), embedding_(std::move(embedding)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(embedding_->tokens()), t.Labels())};
  }

 private:
  std::shared_ptr<const SmallEmbedding> embedding_;
};

Model BareHeadModel() {
  Model model;
  const auto embedding = std::make_shared<SmallEmbedding>();
  model.blocks = {embedding, std::make_shared<SmallLayer>(), std::make_shared<BareHead>(embedding)};
  return model;
}

TEST(OwnModel, GradientsOfABareHeadMatchFiniteDifferences) {
  const std::vector<int32_t> tokens = {1, 4, 0, 2, 2, 3}, labels = {4, 0, -100, 2, 3, 1};
  for (const char* policy : {"none", "all"}) {
    testing::RunRanks(1, [&](Communicator& communicator) {
      JobOptions options;
      options.micro_batch = 2;
      options.sequence_length = kLength;
      options.checkpoint = policy;
      options.evaluates = true;
      auto created = TrainingJob::Create(BareHeadModel(), options, {.kernels = KernelKind::kReference}, communicator);
      ASSERT_TRUE(created.ok()) << created.status();
      TrainingJob& job = **created;
      const auto loss = [&](const Parameter* parameter, int64_t element, float change) {
        EXPECT_TRUE(job.SetParameters(Perturbed(parameter, element, change)).ok());
        return *job.Evaluate();
      };
      ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
      std::copy(tokens.begin(), tokens.end(), job.tokens(0).begin());
      std::copy(labels.begin(), labels.end(), job.labels(0).begin());
      ASSERT_TRUE(job.Step({.learning_rate = 0, .counted_labels = 5}).ok());
      std::vector<std::vector<float>> gradients;  // read before Evaluate takes their memory
      for (const Parameter* parameter : job.parameters()) {
        gradients.emplace_back(static_cast<size_t>(parameter->elements()));
        ASSERT_TRUE(job.ReadGradient(*parameter, 1, absl::MakeSpan(gradients.back())).ok());
      }
      for (size_t p = 0; p < gradients.size(); ++p) {
        const Parameter* parameter = job.parameters()[p];
        for (int64_t i = 0; i < parameter->elements(); ++i) {
          constexpr float kStep = 0x1p-6F;
          const double slope = (loss(parameter, i, kStep) - loss(parameter, i, -kStep)) / (2 * kStep);
          EXPECT_NEAR(gradients[p][static_cast<size_t>(i)], slope, 1e-3) << parameter->name() << " " << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace reprise
