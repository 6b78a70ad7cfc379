// The page of a plan for thirty layers that are no transformer's: each stands there with what is kept of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "launch/plan_trace.h"
#include "launch/run_report.h"
#include "launch/run_table.h"
#include "tests/launch/shell.h"
#include "tests/tools/chain_model.h"
#include "tests/tools/paths.h"
#include "tests/tools/slow_machine.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 30;

TEST(ChainReport, NamesEveryLayerWithWhatIsKept) {
  const Model model = testing::UnequalChain(kLayers, /*seed=*/9);
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
  JobOptions options;
  options.micro_batch = 4;
  options.sharding = Sharding::kNone;
  options.sequence_length = testing::kChainLongest;
  const auto everything = MakeJobPlan(model, options, 1, kernels);
  ASSERT_TRUE(everything.ok()) << everything.status();
  const Hardware machine = testing::SlowMachine(/*link=*/1e9, /*host=*/1e9);
  options.times = std::make_shared<const MachineTimes>(EstimateTimes(machine, (*everything)->schedule.kernels, 1));
  options.checkpoint = "auto";
  options.offload_activations = true;
  options.memory_budget_bytes = (*everything)->device_bytes();
  const auto smallest = FindSmallestBudgets(**MakeJobPlan(model, options, 1, kernels), kernels);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  options.memory_budget_bytes = (smallest->offloaded + (*everything)->device_bytes()) / 2;
  const auto job = MakeJobPlan(model, options, 1, kernels);
  ASSERT_TRUE(job.ok()) << job.status();

  const testing::TemporaryFolder folder;
  auto report = RunReport::Open(PosixStorage(), folder.File("report.html"));
  ASSERT_TRUE(report.ok()) << report.status();
  const auto alone = MakeLocalCommunicators(1, {});
  ASSERT_TRUE(report->SetRun(RunObject(TrainConfiguration(), **job, *alone[0], {}, {})).ok());
  const auto trace = SimulatedTrace(**job);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_TRUE(report->SetTrace(*trace).ok());
  StepMetrics metrics;
  metrics.step = 1;
  metrics.loss = 1.5;
  metrics.step_seconds = 1;
  metrics.peak_device_bytes = metrics.predicted_peak_device_bytes = (*job)->device_bytes();
  report->Add(metrics);
  ASSERT_TRUE(report->Write().ok());

  const std::string page = testing::Contents(folder.File("report.html"));
  // Neighbours that are kept alike share a row, so each layer's name stands there or lies within one.
  EXPECT_THAT(page, HasSubstr("layer 0"));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("layer ", kLayers - 1)));
  std::set<std::string> kept;
  for (int layer = 0; layer < kLayers; ++layer) {
    const LayerPlan& plan = (*job)->plan.layers[static_cast<size_t>(layer)];
    kept.insert(plan.keep == Keep::kEverything ? "everything"
                : plan.keep == Keep::kSet      ? "set"
                : plan.starts_segment          ? "boundary"
                                               : "nothing");
  }
  EXPECT_GE(kept.size(), 2U) << "half of the memory, and all layers are kept alike";
  for (const std::string& words : kept) EXPECT_THAT(page, HasSubstr(absl::StrCat("<td>", words, "</td>")));
}

}  // namespace
}  // namespace reprise
