// Any plan: whatever mix of saved sets, segments, offload, gathered units and prefetch, a step computes the same bits
// as keeping everything, in the memory that was predicted, moving what the plan says.
#include "tests/tools/random_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/checker.h"
#include "tests/tools/equality.h"

namespace reprise {
namespace {

using ::reprise::testing::CellOutcome;
using ::reprise::testing::EqualityCell;
using ::reprise::testing::FirstDifference;
using ::reprise::testing::PlanCell;
using ::reprise::testing::PlanLetters;
using ::reprise::testing::RandomPlan;
using ::reprise::testing::RunOnLocalRanks;

constexpr int kPlansAGroup = 6;

// Layers that share the boundary before layer `first`.
size_t SegmentEnd(const Plan& plan, size_t first) {
  size_t end = first + 1;
  while (end < plan.layers.size() && !plan.layers[end].starts_segment) ++end;
  return end;
}

int64_t GathersOf(const Plan& plan, Sharding sharding) {
  if (sharding == Sharding::kNone) return 0;
  int64_t gathers = 2;  // of the root unit
  for (size_t first = 0; first < plan.layers.size(); first = SegmentEnd(plan, first)) {
    const auto length = static_cast<int64_t>(SegmentEnd(plan, first) - first);
    gathers += length > 1 ? 3 * length - 1 : plan.layers[first].stays_gathered ? 1 : 2;
  }
  return gathers;
}

int64_t RecomputedFlops(const Program& program, const Plan& plan) {
  int64_t flops = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    const ProgramGraph& graph = program.graph(i + 1);
    const bool through = i + 1 < plan.layers.size() && !plan.layers[i + 1].starts_segment;
    if (layer.keep == Keep::kSet) flops += graph.saved_sets[static_cast<size_t>(layer.set)].recompute.flops;
    if (layer.keep == Keep::kBoundary) {
      flops += through ? graph.routines.recompute_through.flops : graph.routines.recompute.flops;
    }
  }
  return flops;
}

void ExpectWhatThePlanSays(const EqualityCell& cell, const JobPlan& job, const CellOutcome& outcome) {
  const int64_t boundary_bytes = job.program.graph(1).block.graph.type(0).bytes();
  for (const StepResult& step : outcome.steps) {
    EXPECT_EQ(step.gathers, GathersOf(job.plan, cell.sharding) * cell.accumulation);
    EXPECT_EQ(step.offloaded_bytes, job.plan.offloaded_boundaries() * boundary_bytes * cell.accumulation);
    EXPECT_EQ(step.recomputed_flops, RecomputedFlops(job.program, job.plan) * cell.accumulation);
    EXPECT_EQ(step.peak_device_bytes, outcome.predicted_peak_bytes);
  }
}

// No wait that the others imply: taking it out leaves a schedule that the checker still accepts.
void ExpectNoRedundantWait(const Schedule& schedule) {
  Schedule without = schedule;
  for (Instruction& instruction : without.instructions) {
    const std::vector<int32_t> waits = instruction.waits;
    for (const int32_t wait : waits) {
      std::erase(instruction.waits, wait);
      EXPECT_FALSE(Check(without).ok()) << schedule.InstructionLabel(
                                               static_cast<int32_t>(&instruction - without.instructions.data()))
                                        << " waits for " << schedule.InstructionLabel(wait);
      instruction.waits = waits;
    }
  }
}

class RandomPlanTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(RandomPlanTest, SameBitsAsKeepingEverythingInThePredictedMemory) {
  EqualityCell cell = GetParam();
  const std::string name = cell.Name();
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 random(seed);
  const std::vector<CellOutcome> expected = RunOnLocalRanks(cell.Reference());
  const auto sets = static_cast<int>(PlanCell(cell.Reference())->program.graph(1).saved_sets.size());
  for (int n = 0; n < kPlansAGroup; ++n) {
    cell.plan = RandomPlan({.layers = cell.layers, .sets = sets}, &random);
    SCOPED_TRACE(PlanLetters(*cell.plan));
    const auto job = PlanCell(cell);
    ASSERT_TRUE(Check(job->schedule).ok()) << Check(job->schedule);
    const std::vector<const Schedule*> all(static_cast<size_t>(cell.ranks), &job->schedule);
    EXPECT_TRUE(CheckAcrossRanks(all).ok()) << CheckAcrossRanks(all);
    if (n == 0) ExpectNoRedundantWait(job->schedule);
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
    for (size_t rank = 0; rank < outcome.size(); ++rank) {
      EXPECT_EQ(FirstDifference(outcome[rank], expected[rank]), "") << "on rank " << rank;
      ExpectWhatThePlanSays(cell, *job, outcome[rank]);
    }
  }
}

std::vector<EqualityCell> Groups() {
  std::vector<EqualityCell> groups;
  for (const Sharding sharding : {Sharding::kFull, Sharding::kNone}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const double dropout : {0.0, 0.1}) {
        for (const int ranks : {1, 2, 3}) {
          groups.push_back({.sharding = sharding,
                            .dtype = dtype,
                            .dropout = dropout,
                            .ranks = ranks,
                            .accumulation = groups.size() % 4 == 1 ? 2 : 1,
                            .layers = 5 + static_cast<int>(groups.size() % 3)});
        }
      }
    }
  }
  return groups;
}

INSTANTIATE_TEST_SUITE_P(Matrix, RandomPlanTest, ::testing::ValuesIn(Groups()), [](const auto& info) {
  return absl::StrCat("layers_", info.param.layers, "_", info.param.Reference().Name());
});

// The hand's own plan with sets.
class SelectiveTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(SelectiveTest, SameBitsAndNoProductIsMadeAgain) {
  EqualityCell cell = GetParam();
  const std::vector<CellOutcome> expected = RunOnLocalRanks(cell.Reference());
  cell.checkpoint = "selective";
  for (const bool offload : {false, true}) {
    cell.offload = offload;
    SCOPED_TRACE(cell.Name());
    const auto job = PlanCell(cell);
    const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);
    for (size_t rank = 0; rank < outcome.size(); ++rank) {
      EXPECT_EQ(FirstDifference(outcome[rank], expected[rank]), "") << "on rank " << rank;
      ExpectWhatThePlanSays(cell, *job, outcome[rank]);
      EXPECT_EQ(outcome[rank].steps[0].recomputed_flops, 0);
    }
    EXPECT_EQ(job->plan.offloaded_boundaries(), offload ? cell.layers - 1 : 0);
    // Equal where gradients, not activations, make the peak.
    EXPECT_LE(job->schedule.largest_live_sum, PlanCell(cell.Reference())->schedule.largest_live_sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, SelectiveTest, ::testing::ValuesIn(Groups()), [](const auto& info) {
  return absl::StrCat("layers_", info.param.layers, "_", info.param.Reference().Name());
});

}  // namespace
}  // namespace reprise
