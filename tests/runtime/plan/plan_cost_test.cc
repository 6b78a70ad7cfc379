#include "runtime/plan/plan_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

// A chain whose numbers a person can add up: forward 10, backward 20, recompute 8, set 3; bytes with one power of ten a
// kind, so that a sum shows its parts.
constexpr int64_t kForward = 10;
constexpr int64_t kBackward = 20;

OptionProfile Everything() {
  OptionProfile o;
  o.reads_boundary = false;
  o.kept_bytes = 500;
  o.forward_bytes = 600;
  o.forward_bytes_dropped = 510;
  o.backward_bytes = 700;
  return o;
}

OptionProfile SavedSet() {
  OptionProfile o = Everything();
  o.keep = Keep::kSet;
  o.set = 4;
  o.kept_bytes = 200;
  o.recompute_ns = 3;
  o.recompute_bytes = 650;
  o.reads_boundary = true;
  return o;
}

OptionProfile Boundary() {
  OptionProfile o = Everything();
  o.keep = Keep::kBoundary;
  o.kept_bytes = 0;
  o.recompute_ns = 8;
  o.recompute_bytes = 680;
  o.reads_boundary = true;
  return o;
}

Profile Chain(int64_t layers) {
  Profile profile;
  profile.blocks.resize(static_cast<size_t>(layers + 2));
  for (int64_t i = 0; i < layers + 2; ++i) {
    BlockProfile& block = profile.blocks[static_cast<size_t>(i)];
    block.name = absl::StrCat("block ", i);
    block.boundary_bytes = i > 0 ? 100 : 0;
    block.forward_ns = i == layers + 1 ? 30 : kForward;
    block.backward_ns = i == 0 ? 5 : kBackward;
    block.forward_bytes = i == 0 ? 110 : 900;
    block.backward_bytes = 120;
    if (i == 0 || i == layers + 1) continue;
    block.recompute_through_ns = 9;
    block.recompute_through_bytes = 690;
    block.remade_bytes = 550;
    block.options = {Everything(), SavedSet(), Boundary()};
  }
  return profile;
}

Plan Layers(std::vector<LayerPlan> layers, int prefetch = 1) { return {"test", std::move(layers), prefetch}; }

constexpr LayerPlan kAll = {};
constexpr LayerPlan kSet = {.keep = Keep::kSet, .set = 4};
constexpr LayerPlan kNothing = {.keep = Keep::kBoundary};
constexpr LayerPlan kShared = {.keep = Keep::kBoundary, .starts_segment = false};
constexpr LayerPlan kOffloaded = {.keep = Keep::kBoundary, .offload_boundary = true};
constexpr LayerPlan kGathered = {.stays_gathered = true};

PlanCost Cost(const Profile& profile, const Plan& plan) {
  const absl::StatusOr<PlanCost> cost = CostOf(profile, plan);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return cost.value_or(PlanCost{});
}

int64_t Time(const Profile& profile, const Plan& plan) { return Cost(profile, plan).time_ns; }
int64_t Peak(const Profile& profile, const Plan& plan) { return Cost(profile, plan).peak_bytes; }

void ExpectRefused(const Profile& profile, const Plan& plan, const std::string& words) {
  const absl::StatusOr<PlanCost> cost = CostOf(profile, plan);
  EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cost.status().message()), HasSubstr(words));
}

TEST(PlanCostTest, WithoutTransfersTimesAddUp) {
  const Profile profile = Chain(3);
  const int64_t kept = 4 * kForward + 30 + 3 * kBackward + 5;
  EXPECT_EQ(Time(profile, Layers({kAll, kAll, kAll})), kept);
  EXPECT_EQ(Time(profile, Layers({kSet, kNothing, kAll})), kept + 3 + 8);
  // A segment of three: two layers make their output again, too.
  EXPECT_EQ(Time(profile, Layers({kNothing, kShared, kShared})), kept + 9 + 9 + 8);
}

TEST(PlanCostTest, MicroBatchesFollowOneAnotherAndTheUpdateComesOnce) {
  Profile profile = Chain(1);
  profile.accumulation = 3;
  profile.update_ns = 1000;
  EXPECT_EQ(Time(profile, Layers({kAll})), 3 * (2 * kForward + 30 + kBackward + 5) + 1000);
}

TEST(PlanCostTest, NoLayers) {
  Profile profile = Chain(0);
  EXPECT_EQ(Time(profile, Layers({})), kForward + 30 + 5);
  // First and last block share a unit: one gather, as long as the first block says.
  profile.gathers = true;
  profile.blocks[0].gather_ns = 7;
  profile.blocks[1].gather_ns = 1000;
  profile.blocks[0].whole_bytes = 11;
  EXPECT_EQ(Time(profile, Layers({})), 7 + kForward + 30 + 5);
  EXPECT_EQ(Peak(profile, Layers({})), 900);
}

TEST(PlanCostTest, PeakOfEverythingKeptIsInTheHeadOrTheLastBackward) {
  Profile profile = Chain(3);
  profile.state_bytes = 10000;
  EXPECT_EQ(Peak(profile, Layers({kAll, kAll, kAll})), 10000 + 3 * 500 + 900);
  EXPECT_EQ(Cost(profile, Layers({kAll, kAll, kAll})).peak_step, "forward and backward of block 4");
  profile.blocks.back().gradient_held_bytes = 2000;  // still read by the reduction in the step after
  EXPECT_EQ(Peak(profile, Layers({kAll, kAll, kAll})), 10000 + 2 * 500 + 700 + 2000);
  EXPECT_EQ(Cost(profile, Layers({kAll, kAll, kAll})).peak_step, "backward of block 3");
}

TEST(PlanCostTest, BoundariesCountWhereTheyAreReadAndStay) {
  const Profile profile = Chain(3);
  EXPECT_EQ(Peak(profile, Layers({kNothing, kNothing, kNothing})), 3 * 100 + 900);
  EXPECT_EQ(Peak(profile, Layers({kSet, kSet, kSet})), 3 * (200 + 100) + 900);
  // In a segment only the first one stays. B(3): own 700, and two layers remade, which count the boundaries before
  // them: more than the head has.
  EXPECT_EQ(Peak(profile, Layers({kNothing, kShared, kShared})), 700 + 2 * 550);
  EXPECT_EQ(Cost(profile, Layers({kNothing, kShared, kShared})).peak_step, "backward of block 3");
}

TEST(PlanCostTest, GrowingGradientsMoveThePeakIntoBackward) {
  Profile profile = Chain(4);
  for (BlockProfile& block : profile.blocks) block.gradient_left_bytes = 300;
  // B(i) has boundaries i-1 .. 1 below it (100 each) and gradients of 5 - i blocks: 300 a layer come, 100 go.
  EXPECT_EQ(Peak(profile, Layers({kNothing, kNothing, kNothing, kNothing})), 700 + 4 * 300);
  EXPECT_EQ(Cost(profile, Layers({kNothing, kNothing, kNothing, kNothing})).peak_step, "backward of block 1");
  // Layer 2 keeps 700 more: B(3) now has them and 600 of gradients.
  profile.blocks[2].options[0].kept_bytes = 800;
  EXPECT_EQ(Peak(profile, Layers({kNothing, kAll, kNothing, kNothing})), 700 + 100 + 800 + 2 * 300);
  EXPECT_EQ(Cost(profile, Layers({kNothing, kAll, kNothing, kNothing})).peak_step, "backward of block 3");
}

TEST(PlanCostTest, OffloadThatHides) {
  Profile profile = Chain(3);
  profile.blocks[1].offload_ns = 9;
  profile.blocks[1].reload_ns = 25;
  const int64_t plain = Time(profile, Layers({kNothing, kNothing, kNothing}));
  // F(1) and F(2) pass while it leaves; R(2) B(2), 28 ns, while it returns.
  EXPECT_EQ(Time(profile, Layers({kOffloaded, kNothing, kNothing})), plain);
  EXPECT_EQ(Cost(profile, Layers({kOffloaded, kNothing, kNothing})).host_bytes, 100);
}

TEST(PlanCostTest, OffloadThatDoesNotHide) {
  Profile profile = Chain(3);
  profile.blocks[1].offload_ns = 13;
  profile.blocks[1].reload_ns = 30;
  const int64_t plain = Time(profile, Layers({kNothing, kNothing, kNothing}));
  // F(2) waits for it: 13 - 10. R(1) waits: 30 - (8 + 20).
  EXPECT_EQ(Time(profile, Layers({kOffloaded, kNothing, kNothing})), plain + 3 + 2);
}

TEST(PlanCostTest, AReloadWaitsForItsOwnOffload) {
  Profile profile = Chain(1);
  profile.blocks[1].offload_ns = 50;
  profile.blocks[1].reload_ns = 60;
  // F(0), offload; H waits for it, and so does the reload; R(1) waits for that.
  EXPECT_EQ(Time(profile, Layers({kOffloaded})), 10 + 50 + 60 + 8 + 20 + 5);
}

TEST(PlanCostTest, OffloadedBoundariesReturnASegmentAhead) {
  const Profile profile = Chain(2);
  // The head has both boundaries resident, or one and the reload of the other in flight.
  EXPECT_EQ(Peak(profile, Layers({kNothing, kNothing})), 900 + 200);
  EXPECT_EQ(Peak(profile, Layers({kNothing, kOffloaded})), 900 + 200);
  EXPECT_EQ(Peak(profile, Layers({kOffloaded, kNothing})), 900 + 100);
  EXPECT_EQ(Peak(profile, Layers({kOffloaded, kOffloaded})), 900 + 100);
}

TEST(PlanCostTest, PrefetchHidesGathers) {
  Profile profile = Chain(2);
  profile.gathers = true;
  for (BlockProfile& block : profile.blocks) block.gather_ns = 7;
  const int64_t compute = Time(Chain(2), Layers({kAll, kAll}));
  // Slots: F(0) F(1) F(2) H B(2) B(1).
  EXPECT_EQ(Time(profile, Layers({kAll, kAll}, 0)), compute + 6 * 7);
  EXPECT_EQ(Time(profile, Layers({kAll, kAll}, 1)), compute + 7);
  EXPECT_EQ(Time(profile, Layers({kGathered, kGathered}, 0)), compute + 4 * 7);
  // With 15 ns a gather the three forwards do not hide theirs, the head and B(2) do.
  for (BlockProfile& block : profile.blocks) block.gather_ns = 15;
  EXPECT_EQ(Time(profile, Layers({kAll, kAll}, 1)), compute + 15 + 3 * 5);
}

TEST(PlanCostTest, GatheredBytes) {
  Profile profile = Chain(2);
  profile.gathers = true;
  for (BlockProfile& block : profile.blocks) block.whole_bytes = 10000;
  // The head: kept, own, its unit, and as many ahead as the prefetch says.
  EXPECT_EQ(Peak(profile, Layers({kAll, kAll}, 0)), 2 * 500 + 900 + 10000);
  EXPECT_EQ(Peak(profile, Layers({kAll, kAll}, 1)), 2 * 500 + 900 + 20000);
  EXPECT_EQ(Peak(profile, Layers({kAll, kAll}, 2)), 2 * 500 + 900 + 30000);
  // Two that stay are there anyway, and are not gathered again.
  EXPECT_EQ(Peak(profile, Layers({kGathered, kGathered}, 1)), 2 * 500 + 900 + 30000);
  EXPECT_EQ(Peak(profile, Layers({kAll, kGathered}, 0)), 2 * 500 + 900 + 20000);
}

TEST(PlanCostTest, TheStepAfterNextWaitsForAReduction) {
  Profile profile = Chain(3);
  profile.reduces = true;
  const Plan plan = Layers({kAll, kAll, kAll});
  const int64_t compute = Time(Chain(3), plan);
  for (BlockProfile& block : profile.blocks) block.reduce_ns = 4;
  EXPECT_EQ(Time(profile, plan), compute + 4);  // that of the root ends last
  // H's reduction, 26: B(2) waits for 6 of it. Then each is free of the one before.
  profile.blocks[4].reduce_ns = 26;
  EXPECT_EQ(Time(profile, plan), compute + 6 + 4);
}

TEST(PlanCostTest, ReductionsQueue) {
  Profile profile = Chain(2);
  profile.reduces = true;
  for (BlockProfile& block : profile.blocks) block.reduce_ns = 100;
  // H ends at 60; reductions end at 160, 260, 360, 460. B(1) waits for the first, B(0) for the second.
  EXPECT_EQ(Time(profile, Layers({kAll, kAll})), 460);
}

TEST(PlanCostTest, InterferenceIsRoundedHalfUp) {
  Profile profile = Chain(2);
  profile.blocks[1].offload_ns = 5;
  profile.blocks[1].reload_ns = 3;
  const int64_t plain = Time(profile, Layers({kNothing, kNothing}));
  const auto with = [&](Stream stream, int64_t millionths) {
    Profile shared = profile;
    shared.interference_millionths[static_cast<size_t>(stream)] = millionths;
    return Time(shared, Layers({kOffloaded, kNothing})) - plain;
  };
  EXPECT_EQ(with(Stream::kOffload, 500'000), 3);  // 2.5
  EXPECT_EQ(with(Stream::kOffload, 499'999), 2);
  EXPECT_EQ(with(Stream::kReload, 500'000), 2);  // 1.5
  EXPECT_EQ(with(Stream::kReload, 166'666), 0);  // 0.499998
  EXPECT_EQ(with(Stream::kGather, 500'000), 0);
}

TEST(PlanCostTest, InterferenceOfGathersAndReductions) {
  Profile profile = Chain(1);
  profile.gathers = true;
  profile.reduces = true;
  for (BlockProfile& block : profile.blocks) {
    block.gather_ns = 2;
    block.reduce_ns = 2;
  }
  const int64_t plain = Time(profile, Layers({kAll}));
  profile.interference_millionths[static_cast<size_t>(Stream::kGather)] = 1'000'000;
  EXPECT_EQ(Time(profile, Layers({kAll})), plain + 4 * 2);  // F(0) F(1) H B(1)
  profile.interference_millionths[static_cast<size_t>(Stream::kReduce)] = 500'000;
  EXPECT_EQ(Time(profile, Layers({kAll})), plain + 4 * 2 + 2 * 1);  // that after B(0) meets no step
}

TEST(PlanCostTest, RefusesPlansOfOtherProfiles) {
  Profile profile = Chain(2);
  ExpectRefused(profile, Layers({kAll}), "1 layers");
  ExpectRefused(profile, Layers({kAll, {.keep = Keep::kSet, .set = 5}}), "saved set 5");
  ExpectRefused(profile, Layers({{.offload_boundary = true}, kAll}), "nothing in backward reads");
  ExpectRefused(profile, Layers({kShared, kAll}), "first");
  ExpectRefused(profile, Layers({kAll, kShared}), "shares a boundary");
  ExpectRefused(profile,
                Layers({kNothing, {.keep = Keep::kBoundary, .starts_segment = false, .offload_boundary = true}}),
                "starts no segment");
  ExpectRefused(profile, Layers({kAll, kAll}, 4), "prefetch is 4");
  ExpectRefused(profile, Layers({kGathered, kAll}), "never sharded");
  profile.gathers = true;
  ExpectRefused(profile, Layers({{.keep = Keep::kBoundary, .stays_gathered = true}, kShared}), "several layers");
  profile.blocks.clear();
  ExpectRefused(profile, Layers({}), "blocks");
}

}  // namespace
}  // namespace reprise
