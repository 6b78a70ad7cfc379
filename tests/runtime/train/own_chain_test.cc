// A model of one's own that uses all that a chain allows (tests/tools/threaded_model.h): its gradients are those of
// finite differences, and no policy of checkpointing, offload or budget changes a bit of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/train/training_job.h"
#include "tests/tools/perturbed.h"
#include "tests/tools/ranks.h"
#include "tests/tools/slow_machine.h"
#include "tests/tools/threaded_model.h"

namespace reprise {
namespace {

using testing::kThreadedLength;
using testing::kThreadedVocabulary;
using testing::Perturbed;
using testing::ThreadedModel;

constexpr int kSteps = 2;

JobOptions Options() {
  JobOptions options;
  options.micro_batch = 2;
  options.sequence_length = kThreadedLength;
  options.optimizer.weight_decay = 0.1;
  return options;
}

void FillBatch(int64_t step, int rank, int micro_batch, TrainingJob* job) {
  for (size_t i = 0; i < job->tokens(micro_batch).size(); ++i) {
    const int64_t k = static_cast<int64_t>(i) + 3 * step + 7 * rank + 11 * micro_batch;
    job->tokens(micro_batch)[i] = static_cast<int32_t>(k * k % kThreadedVocabulary);
    job->labels(micro_batch)[i] = k % 6 == 0 ? -100 : static_cast<int32_t>(k * 3 % kThreadedVocabulary);
  }
}

int64_t Counted(absl::Span<const int32_t> labels) {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; });
}

class OwnChainGradients : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnChainGradients, MatchFiniteDifferences) {
  testing::RunRanks(1, [&](Communicator& communicator) {
    JobOptions options = Options();
    options.checkpoint = GetParam();
    options.evaluates = true;
    auto created = TrainingJob::Create(ThreadedModel(), options, {.kernels = KernelKind::kReference}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
    FillBatch(0, 0, 0, &job);
    ASSERT_TRUE(job.Step({.learning_rate = 0, .counted_labels = Counted(job.labels(0))}).ok());
    std::vector<std::vector<float>> gradients;  // read before Evaluate takes their memory
    for (const Parameter* parameter : job.parameters()) {
      gradients.emplace_back(static_cast<size_t>(parameter->elements()));
      ASSERT_TRUE(job.ReadGradient(*parameter, 1, absl::MakeSpan(gradients.back())).ok());
    }
    const auto loss = [&](const Parameter* parameter, int64_t element, float change) {
      EXPECT_TRUE(job.SetParameters(Perturbed(parameter, element, change)).ok());
      return *job.Evaluate();
    };
    EXPECT_EQ(gradients.size(), 12U);
    for (size_t p = 0; p < gradients.size(); ++p) {
      const Parameter* parameter = job.parameters()[p];
      for (int64_t i = 0; i < parameter->elements(); ++i) {
        constexpr float kStep = 0x1p-7F;
        const double slope = (loss(parameter, i, kStep) - loss(parameter, i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(gradients[p][static_cast<size_t>(i)], slope, 2e-3 + 2e-3 * std::abs(slope))
            << parameter->name() << " " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, OwnChainGradients, ::testing::Values("none", "all", "every:3"),
                         [](const auto& test) { return test.param == "every:3" ? "every_3" : test.param; });

// Losses, norms, last gradients and parameters, with every number's bits.
std::vector<double> TrainRank(const JobOptions& options, Communicator& communicator) {
  std::vector<double> run;
  auto created = TrainingJob::Create(ThreadedModel(), options, {}, communicator);
  EXPECT_TRUE(created.ok()) << created.status();
  if (!created.ok()) return run;
  TrainingJob& job = **created;
  EXPECT_TRUE(job.SetParameters(RandomParameters(5)).ok());
  for (int64_t step = 0; step < kSteps; ++step) {
    StepInput input{.seed = 1,
                    .step = step,
                    .learning_rate = 1e-2,
                    .first_sequence = communicator.rank() * options.micro_batch,
                    .sequence_stride = communicator.size() * options.micro_batch};
    for (int m = 0; m < options.accumulation; ++m) {
      FillBatch(step, communicator.rank(), m, &job);
      input.counted_labels += Counted(job.labels(m));
    }
    const auto result = job.Step(input);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return run;
    run.insert(run.end(), {result->loss, result->gradient_norm});
    EXPECT_LE(result->peak_device_bytes, job.plan().device_bytes());
  }
  for (const Parameter* parameter : job.parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->elements()));
    EXPECT_TRUE(job.ReadGradient(*parameter, 1, absl::MakeSpan(values)).ok());
    run.insert(run.end(), values.begin(), values.end());
    EXPECT_TRUE(job.ReadParameter(*parameter, absl::MakeSpan(values)).ok());
    run.insert(run.end(), values.begin(), values.end());
  }
  return run;
}

std::vector<double> Train(const JobOptions& options, int ranks) {
  std::vector<double> first;
  testing::RunRanks(ranks, [&](Communicator& communicator) {
    std::vector<double> run = TrainRank(options, communicator);
    if (communicator.rank() == 0) first = std::move(run);
  });
  return first;
}

TEST(OwnChainNames, TwoParametersOfOneNameAreRefused) {
  Model model = ThreadedModel();
  const Model other = ThreadedModel();
  model.blocks[2] = other.blocks[2];  // of the same name as the one that a later block shares
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
  const auto plan = MakeJobPlan(model, Options(), 1, kernels);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(plan.status().message().find("mix.p0"), absl::string_view::npos) << plan.status();
}

using Cell = std::tuple<Sharding, int, DType>;  // ranks
class OwnChainPolicies : public ::testing::TestWithParam<Cell> {
 protected:
  int Ranks() const { return std::get<1>(GetParam()); }
  JobOptions CellOptions() const {
    JobOptions options = Options();
    options.sharding = std::get<0>(GetParam());
    options.dtype = std::get<2>(GetParam());
    options.accumulation = 2;
    return options;
  }
};

TEST_P(OwnChainPolicies, ByHandGiveTheSameBits) {
  const std::vector<double> expected = Train(CellOptions(), Ranks());
  ASSERT_GT(expected.size(), 100U);
  for (const char* policy : {"all", "every:2", "every:3", "sqrt", "selective"}) {
    for (const bool offload : {false, true}) {
      SCOPED_TRACE(absl::StrCat(policy, offload ? " offload" : ""));
      JobOptions options = CellOptions();
      options.checkpoint = policy;
      options.offload_activations = offload;
      EXPECT_TRUE(Train(options, Ranks()) == expected);
    }
  }
}

TEST_P(OwnChainPolicies, OfThePlannerGiveTheSameBits) {
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
  JobOptions options = CellOptions();
  const auto everything = MakeJobPlan(ThreadedModel(), options, Ranks(), kernels);
  ASSERT_TRUE(everything.ok()) << everything.status();
  const std::vector<double> expected = Train(options, Ranks());
  options.times = std::make_shared<const MachineTimes>(
      EstimateTimes(testing::SlowMachine(/*link=*/5e8, /*host=*/5e8), (*everything)->schedule.kernels, Ranks()));
  options.checkpoint = "auto";
  options.offload_activations = true;
  options.memory_budget_bytes = (*everything)->device_bytes() * 2;
  const auto unlimited = MakeJobPlan(ThreadedModel(), options, Ranks(), kernels);
  ASSERT_TRUE(unlimited.ok()) << unlimited.status();
  const auto smallest = FindSmallestBudgets(**unlimited, kernels);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  for (const int64_t budget : {smallest->offloaded, smallest->resident, (*everything)->device_bytes()}) {
    SCOPED_TRACE(budget);
    options.memory_budget_bytes = budget;
    EXPECT_TRUE(Train(options, Ranks()) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cells, OwnChainPolicies,
    ::testing::Values(Cell{Sharding::kFull, 1, DType::kFloat32}, Cell{Sharding::kFull, 2, DType::kFloat32},
                      Cell{Sharding::kFull, 2, DType::kBFloat16}, Cell{Sharding::kGradients, 2, DType::kFloat32},
                      Cell{Sharding::kOptimizer, 2, DType::kFloat32}, Cell{Sharding::kNone, 2, DType::kFloat32}),
    [](const auto& test) {
      return absl::StrCat(ShardingName(std::get<0>(test.param)), "_R", std::get<1>(test.param), "_",
                          DTypeName(std::get<2>(test.param)));
    });

}  // namespace
}  // namespace reprise
