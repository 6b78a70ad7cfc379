// The operation of examples/operation, brought by its plug-in: its kernels give the numbers of its definition, its
// gradient those of finite differences, and recomputing it changes no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/model/plugin.h"
#include "runtime/model/registry.h"
#include "runtime/tensor/kernel.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

constexpr int64_t kVocabulary = 5, kWidth = 4, kLength = 6, kLayers = 3;

class OwnOperation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto loaded = LoadPlugin(absl::StrCat(REPRISE_BINARY_DIR, "/plugins/mixer.so"));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }
};

Model Mixer() {
  ModelConfig config({{"vocab_size", kVocabulary}, {"width", kWidth}, {"layers", kLayers}}, "this test");
  return FindModel("mixer")->build(config, {})->model;
}

JobOptions Options() {
  JobOptions options;
  options.sequence_length = kLength;
  return options;
}

TEST_F(OwnOperation, KernelsGiveTheNumbersOfTheDefinition) {
  const std::vector<float> x = {-3, -0.5F, 0, 0.5F, 1, 2}, dy = {1, 1, 1, 1, -2, 0.25F};
  const std::vector<float> y = {0, 0, 0, 0.25F, 1, 4}, dx = {0, 0, 0, 1, -4, 1};
  const TensorType type{DType::kFloat32, {2, 3}};
  for (const KernelKind kind : {KernelKind::kReference, KernelKind::kCpu}) {
    std::vector<float> out(x.size());
    auto* place = reinterpret_cast<std::byte*>(out.data());
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()),
                                 reinterpret_cast<const std::byte*>(dy.data())};
    auto value = MakeKernel({"squared_relu", {type}, {type}, {}}, {.kind = kind});
    ASSERT_TRUE(value.ok()) << value.status();
    (*value)->Run({.inputs = {inputs, 1}, .outputs = {&place, 1}});
    EXPECT_EQ(out, y);
    auto gradient = MakeKernel({"squared_relu_gradient", {type, type}, {type}, {}}, {.kind = kind});
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    (*gradient)->Run({.inputs = {inputs, 2}, .outputs = {&place, 1}});
    EXPECT_EQ(out, dx);
  }
}

// Every parameter drawn, the head too, from the example's name and place alone.
ParameterSource Drawn(const Parameter* which = nullptr, int64_t element = 0, float change = 0) {
  return [=](const Parameter& parameter, int64_t first, absl::Span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t k = first + static_cast<int64_t>(i);
      out[i] = static_cast<float>(0.7 * std::sin(static_cast<double>(k * k + 3 * k) + 5.0 * parameter.name().size()));
      if (&parameter == which && k == element) out[i] += change;
    }
    return absl::OkStatus();
  };
}

void FillBatch(TrainingJob* job) {
  for (size_t i = 0; i < job->tokens(0).size(); ++i) {
    job->tokens(0)[i] = static_cast<int32_t>(i * i % kVocabulary);
    job->labels(0)[i] = static_cast<int32_t>((3 * i + 1) % kVocabulary);
  }
}

std::vector<std::vector<float>> Gradients(const char* policy, DType dtype, Communicator& communicator) {
  std::vector<std::vector<float>> gradients;
  JobOptions options = Options();
  options.dtype = dtype;
  options.checkpoint = policy;
  auto job = TrainingJob::Create(Mixer(), options, {}, communicator);
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE((*job)->SetParameters(Drawn()).ok());
  FillBatch(job->get());
  EXPECT_TRUE((*job)->Step({.counted_labels = kLength}).ok());
  for (const Parameter* parameter : (*job)->parameters()) {
    gradients.emplace_back(static_cast<size_t>(parameter->elements()));
    EXPECT_TRUE((*job)->ReadGradient(*parameter, 1, absl::MakeSpan(gradients.back())).ok());
  }
  return gradients;
}

TEST_F(OwnOperation, RecomputedGivesTheSameBits) {
  testing::RunRanks(1, [](Communicator& communicator) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto kept = Gradients("none", dtype, communicator);
      for (const char* policy : {"all", "every:2", "selective"}) {
        EXPECT_EQ(Gradients(policy, dtype, communicator), kept) << policy;
      }
    }
  });
}

TEST_F(OwnOperation, GradientsMatchFiniteDifferences) {
  testing::RunRanks(1, [](Communicator& communicator) {
    const auto gradients = Gradients("none", DType::kFloat32, communicator);
    JobOptions options = Options();
    options.evaluates = true;
    auto created = TrainingJob::Create(Mixer(), options, {}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    FillBatch(&job);
    const auto loss = [&](const Parameter* parameter, int64_t element, float change) {
      EXPECT_TRUE(job.SetParameters(Drawn(parameter, element, change)).ok());
      return *job.Evaluate();
    };
    ASSERT_EQ(job.parameters().size(), gradients.size());
    for (size_t p = 0; p < gradients.size(); ++p) {
      const Parameter* parameter = job.parameters()[p];
      for (int64_t i = 0; i < parameter->elements(); ++i) {
        constexpr float kStep = 0x1p-8F;
        const double slope = (loss(parameter, i, kStep) - loss(parameter, i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(gradients[p][static_cast<size_t>(i)], slope, 3e-3 + 3e-3 * std::abs(slope))
            << parameter->name() << " " << i;
      }
    }
  });
}

}  // namespace
}  // namespace reprise
