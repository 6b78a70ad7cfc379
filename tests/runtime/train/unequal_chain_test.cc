// The planner, the checker and a run on thirty layers that are no transformer's and all differ.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/checker.h"
#include "runtime/train/training_job.h"
#include "tests/tools/chain_model.h"
#include "tests/tools/ranks.h"
#include "tests/tools/slow_machine.h"

namespace reprise {
namespace {

constexpr int kLayers = 30, kRanks = 2, kSteps = 2, kBudgets = 4;

JobOptions Options() {
  JobOptions options;
  options.micro_batch = 3;
  options.sequence_length = testing::kChainLongest;
  options.offload_activations = true;
  options.prefetch = 2;
  return options;
}

// Losses, norms and the last gradients of rank 0, with every number's bits.
struct Outcome {
  std::vector<double> scalars;
  std::vector<float> gradients;
};

Outcome TrainRank(const Model& model, const JobOptions& options, Communicator& communicator) {
  Outcome run;
  auto created = TrainingJob::Create(model, options, {}, communicator);
  EXPECT_TRUE(created.ok()) << created.status();
  if (!created.ok()) return run;
  TrainingJob& job = **created;
  EXPECT_TRUE(job.SetParameters(RandomParameters(5)).ok());
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < job.tokens(0).size(); ++i) {
      job.tokens(0)[i] =
          static_cast<int32_t>((i * i + static_cast<size_t>(step + communicator.rank())) % testing::kChainVocabulary);
      job.labels(0)[i] = static_cast<int32_t>((i * 3 + static_cast<size_t>(step)) % testing::kChainVocabulary);
    }
    const auto result = job.Step({.seed = 1,
                                  .step = step,
                                  .learning_rate = 1e-2,
                                  .counted_labels = static_cast<int64_t>(job.labels(0).size()),
                                  .first_sequence = communicator.rank() * options.micro_batch,
                                  .sequence_stride = kRanks * options.micro_batch});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return run;
    run.scalars.insert(run.scalars.end(), {result->loss, result->gradient_norm});
    EXPECT_EQ(result->peak_device_bytes, job.plan().device_bytes());
  }
  for (const Parameter* parameter : job.parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->elements()));
    EXPECT_TRUE(job.ReadGradient(*parameter, 1, absl::MakeSpan(values)).ok());
    run.gradients.insert(run.gradients.end(), values.begin(), values.end());
  }
  return run;
}

Outcome Train(const Model& model, const JobOptions& options) {
  Outcome first;
  testing::RunRanks(kRanks, [&](Communicator& communicator) {
    Outcome run = TrainRank(model, options, communicator);
    if (communicator.rank() == 0) first = std::move(run);
  });
  return first;
}

TEST(UnequalChain, PlansCheckAndRunWithTheSameBits) {
  const Model model = testing::UnequalChain(kLayers, /*seed=*/3);
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
  JobOptions options = Options();
  options.offload_activations = false;
  const auto everything = MakeJobPlan(model, options, kRanks, kernels);
  ASSERT_TRUE(everything.ok()) << everything.status();
  const Outcome expected = Train(model, options);

  options = Options();
  options.times = std::make_shared<const MachineTimes>(
      EstimateTimes(testing::SlowMachine(/*link=*/5e8, /*host=*/5e8), (*everything)->schedule.kernels, kRanks));
  options.checkpoint = "auto";
  options.memory_budget_bytes = (*everything)->device_bytes() * 2;
  const auto unlimited = MakeJobPlan(model, options, kRanks, kernels);
  ASSERT_TRUE(unlimited.ok()) << unlimited.status();
  const auto smallest = FindSmallestBudgets(**unlimited, kernels);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  const int64_t low = smallest->offloaded;
  const int64_t high = (*unlimited)->device_bytes();
  ASSERT_LT(low, high);

  std::set<std::string> plans;
  int64_t time = INT64_MAX;
  for (int i = 0; i < kBudgets; ++i) {
    options.memory_budget_bytes = low + (high - low) * i / (kBudgets - 1);
    SCOPED_TRACE(absl::StrCat("budget ", options.memory_budget_bytes));
    const auto job = MakeJobPlan(model, options, kRanks, kernels);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_LE((*job)->device_bytes(), options.memory_budget_bytes);
    EXPECT_LE((*job)->estimate->class_ns, time);
    EXPECT_LE((*job)->estimate->bound_ns, (*job)->estimate->class_ns);
    EXPECT_TRUE(Check((*job)->schedule).ok()) << Check((*job)->schedule);
    time = (*job)->estimate->class_ns;
    std::string plan;
    for (const LayerPlan& layer : (*job)->plan.layers) {
      absl::StrAppend(&plan, static_cast<int>(layer.keep), " ", layer.set, layer.offload_boundary ? "o " : " ");
    }
    if (!plans.insert(plan).second) continue;
    const Outcome run = Train(model, options);
    EXPECT_EQ(run.scalars, expected.scalars);
    EXPECT_TRUE(run.gradients == expected.gradients);
  }
  EXPECT_GE(plans.size(), 3U) << "the budgets made no difference";
}

}  // namespace
}  // namespace reprise
