#include "runtime/schedule/compute_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reprise {
namespace {

// "F0 F1s H3 R2t B2": kind and block; s keeps what backward reads, t makes the output again, * stays gathered, <k
// starts the reload of block k's boundary, - needs no parameters.
std::string Text(const std::vector<ComputeStep>& order) {
  std::vector<std::string> steps;
  for (const ComputeStep& step : order) {
    const char kind = step.kind == InstructionKind::kForward     ? 'F'
                      : step.kind == InstructionKind::kHead      ? 'H'
                      : step.kind == InstructionKind::kRecompute ? 'R'
                                                                 : 'B';
    steps.push_back(absl::StrCat(std::string(1, kind), step.block, step.keeps_saved ? "s" : "", step.through ? "t" : "",
                                 step.stays_gathered ? "*" : "", step.needs_parameters ? "" : "-",
                                 step.reload_before >= 0 ? absl::StrCat("<", step.reload_before) : ""));
  }
  return absl::StrJoin(steps, " ");
}

// Segments of `length` layers whose boundaries are offloaded but the last's; length 0: everything is kept.
Plan PlanOf(int layers, int length, bool offload = false) {
  Plan plan;
  plan.layers.resize(static_cast<size_t>(layers));
  if (length == 0) return plan;
  const int last_segment = (layers - 1) / length;
  for (int i = 0; i < layers; ++i) {
    LayerPlan& layer = plan.layers[static_cast<size_t>(i)];
    layer.keep = Keep::kBoundary;
    layer.starts_segment = i % length == 0;
    layer.offload_boundary = offload && layer.starts_segment && i / length < last_segment;
  }
  return plan;
}

TEST(ComputeOrderTest, NothingIsRecomputedWhereEverythingIsKept) {
  EXPECT_EQ(Text(TrainingOrder(PlanOf(2, 0), 1)), "F0 F1s F2s H3 B2 B1 B0-");
}

TEST(ComputeOrderTest, EachLayerIsASegment) {
  EXPECT_EQ(Text(TrainingOrder(PlanOf(3, 1), 1)), "F0 F1 F2 F3 H4 R3 B3 R2 B2 R1 B1 B0-");
}

TEST(ComputeOrderTest, ASegmentIsMadeAgainFromItsBoundary) {
  EXPECT_EQ(Text(TrainingOrder(PlanOf(5, 2), 1)), "F0 F1 F2 F3 F4 F5 H6 R5 B5 R3t R4 B4 B3 R1t R2 B2 B1 B0-");
  EXPECT_EQ(Text(TrainingOrder(PlanOf(3, 3), 1)), "F0 F1 F2 F3 H4 R1t R2t R3 B3 B2 B1 B0-");
}

TEST(ComputeOrderTest, ABoundaryComesBackASegmentAhead) {
  EXPECT_EQ(Text(TrainingOrder(PlanOf(3, 1, true), 1)), "F0 F1 F2 F3 H4 R3<2 B3 R2<1 B2 R1 B1 B0-");
  EXPECT_EQ(Text(TrainingOrder(PlanOf(5, 2, true), 1)), "F0 F1 F2 F3 F4 F5 H6 R5<3 B5 R3t<1 R4 B4 B3 R1t R2 B2 B1 B0-");
}

TEST(ComputeOrderTest, LayersMayBeTreatedDifferently) {
  Plan plan = PlanOf(4, 2);
  plan.layers[2] = plan.layers[3] = LayerPlan();
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1 F2 F3s F4s H5 B4 B3 R1t R2 B2 B1 B0-");
}

TEST(ComputeOrderTest, TheLastBoundaryComesBackBeforeTheHead) {
  Plan plan = PlanOf(2, 1, true);
  plan.layers[1].offload_boundary = true;
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1 F2 H3<2 R2<1 B2 R1 B1 B0-");
  plan = PlanOf(3, 3);
  plan.layers[0].offload_boundary = true;
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1 F2 F3 H4<1 R1t R2t R3 B3 B2 B1 B0-");
}

TEST(ComputeOrderTest, BackwardMayReadABoundaryThatWasAwayWithoutRecompute) {
  Plan plan = PlanOf(2, 0);
  plan.layers[0].offload_boundary = true;
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1s F2s H3 B2<1 B1 B0-");
}

TEST(ComputeOrderTest, ASetIsRecomputedWhereItLeavesAnythingOut) {
  Plan plan = PlanOf(3, 1);
  plan.layers[0].keep = plan.layers[2].keep = Keep::kSet;
  plan.layers[0].set = plan.layers[2].set = 0;
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1s F2 F3s H4 R3 B3 R2 B2 R1 B1 B0-");
  EXPECT_EQ(Text(TrainingOrder(plan, 1, {true, true, false})), "F0 F1s F2 F3s H4 B3 R2 B2 R1 B1 B0-");
}

TEST(ComputeOrderTest, ALayerMayStayGathered) {
  Plan plan = PlanOf(2, 1);
  plan.layers[1].stays_gathered = true;
  EXPECT_EQ(Text(TrainingOrder(plan, 1)), "F0 F1 F2* H3 R2* B2* R1 B1 B0-");
}

TEST(ComputeOrderTest, MicroBatchesFollowEachOther) {
  const std::vector<ComputeStep> order = TrainingOrder(PlanOf(1, 1), 2);
  EXPECT_EQ(Text(order), "F0 F1 H2 R1 B1 B0- F0 F1 H2 R1 B1 B0-");
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i].micro_batch, i < 6 ? 0 : 1) << i;
}

TEST(ComputeOrderTest, EvaluationIsForwardOnly) { EXPECT_EQ(Text(EvaluationOrder(2)), "F0 F1 F2 H3"); }

}  // namespace
}  // namespace reprise
