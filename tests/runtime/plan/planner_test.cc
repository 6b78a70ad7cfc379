#include "runtime/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "tests/tools/random_profile.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;
using testing::RandomLimits;
using testing::RandomProfile;

constexpr int64_t kMiB = 1 << 20;

// Equal layers. Kept whole a layer takes 50 MiB, as a boundary 10 MiB; it is made again in 8 ms. Its own steps take so
// little that the head decides: 100 MiB, and what all layers retain.
Profile EqualLayers(int64_t layers) {
  Profile profile;
  profile.blocks.resize(static_cast<size_t>(layers + 2));
  for (BlockProfile& block : profile.blocks) {
    block.boundary_bytes = 10 * kMiB;
    block.forward_ns = 10'000'000;
    block.backward_ns = 20'000'000;
  }
  profile.blocks.back().forward_bytes = 100 * kMiB;
  for (int64_t i = 1; i <= layers; ++i) {
    BlockProfile& block = profile.blocks[static_cast<size_t>(i)];
    OptionProfile everything;
    everything.reads_boundary = false;
    everything.kept_bytes = 50 * kMiB;
    OptionProfile boundary;
    boundary.keep = Keep::kBoundary;
    boundary.recompute_ns = 8'000'000;
    block.options = {everything, boundary};
    block.recompute_through_ns = 10'000'000;
    block.recompute_through_bytes = 90 * kMiB;
    block.remade_bytes = 60 * kMiB;
  }
  return profile;
}

int64_t PlainTime(int64_t layers) { return 10'000'000 * (layers + 2) + 20'000'000 * (layers + 1); }

Solution MustSolve(const Profile& profile, const PlanLimits& limits) {
  const absl::StatusOr<Solution> solution = Solve(profile, limits);
  EXPECT_TRUE(solution.ok()) << solution.status();
  return solution.value_or(Solution{});
}

int64_t MustBeSmallest(const Profile& profile, const PlanLimits& limits) {
  const absl::StatusOr<int64_t> smallest = SmallestBudget(profile, limits);
  EXPECT_TRUE(smallest.ok()) << smallest.status();
  return smallest.value_or(0);
}

// How a plan reads, for comparing two.
std::string Letters(const Plan& plan) {
  std::string letters = absl::StrCat(plan.prefetch);
  for (const LayerPlan& layer : plan.layers) {
    absl::StrAppend(&letters, " ", static_cast<int>(layer.keep), ":", layer.set, layer.starts_segment ? "" : "~",
                    layer.offload_boundary ? "o" : "", layer.stays_gathered ? "g" : "");
  }
  return letters;
}

TEST(PlannerTest, KeepsAsManyEqualLayersAsFit) {
  constexpr int64_t kLayers = 20;
  const Profile profile = EqualLayers(kLayers);
  for (int64_t kept = 0; kept <= kLayers; ++kept) {
    const int64_t needed = (100 + 10 * kLayers + 40 * kept) * kMiB;
    for (const int64_t budget : {needed, needed + 40 * kMiB - 1}) {
      if (kept == kLayers && budget > needed) continue;
      const Solution solution = MustSolve(profile, {.memory_budget_bytes = budget, .longest_segment = 1});
      EXPECT_EQ(solution.cost.time_ns, PlainTime(kLayers) + 8'000'000 * (kLayers - kept));
      EXPECT_EQ(solution.cost.peak_bytes, needed);
      EXPECT_TRUE(solution.exact());
    }
  }
}

TEST(PlannerTest, SegmentsSaveBoundaries) {
  // Of two layers in a segment one boundary goes, one layer's remake gains an output: 2 ms. 8 layers as 4 pairs retain
  // 40 MiB at the head, and B(i) has 60 MiB remade.
  const Profile profile = EqualLayers(8);
  const Solution pairs = MustSolve(profile, {.memory_budget_bytes = 140 * kMiB, .longest_segment = 2});
  EXPECT_EQ(pairs.cost.time_ns, PlainTime(8) + 8 * 8'000'000 + 4 * 2'000'000);
  EXPECT_EQ(pairs.plan.segment_count(), 4);
  EXPECT_EQ(MustBeSmallest(profile, {.longest_segment = 2}), 140 * kMiB);
  EXPECT_EQ(MustBeSmallest(profile, {.longest_segment = 1}), 180 * kMiB);
}

TEST(PlannerTest, OffloadsOnlyAsMuchAsTheBudgetAsks) {
  Profile profile = EqualLayers(8);
  for (BlockProfile& block : profile.blocks) {
    block.offload_ns = 9'000'000;
    block.reload_ns = 9'000'000;
  }
  // Every boundary may leave within the forward of a layer. 8 boundaries: 80 MiB; a budget for 4, and one is on its way
  // back while the head runs.
  PlanLimits limits{.memory_budget_bytes = 140 * kMiB, .offloads = true, .longest_segment = 1};
  const Solution solution = MustSolve(profile, limits);
  EXPECT_EQ(solution.cost.time_ns, PlainTime(8) + 8 * 8'000'000);
  EXPECT_GE(solution.plan.offloaded_boundaries(), 4);
  limits.memory_budget_bytes = 180 * kMiB;
  limits.host_budget_bytes = 0;
  EXPECT_EQ(MustSolve(profile, limits).plan.offloaded_boundaries(), 0);
  limits.memory_budget_bytes -= 1;
  EXPECT_EQ(Solve(profile, limits).status().code(), absl::StatusCode::kResourceExhausted);
  limits.host_budget_bytes = 10 * kMiB;
  EXPECT_EQ(MustSolve(profile, limits).plan.offloaded_boundaries(), 1);
}

TEST(PlannerTest, PrefetchCostsMemoryAndBuysTime) {
  Profile profile = EqualLayers(4);
  profile.gathers = true;
  for (BlockProfile& block : profile.blocks) {
    block.gather_ns = 5'000'000;
    block.whole_bytes = 1000 * kMiB;
  }
  PlanLimits limits{.stays_gathered = false, .longest_segment = 1, .smallest_prefetch = 0, .largest_prefetch = 3};
  // Every gather but the first hides behind the unit before.
  const Solution rich = MustSolve(profile, limits);
  EXPECT_EQ(rich.cost.time_ns, PlainTime(4) + 5'000'000);
  EXPECT_EQ(rich.plan.prefetch, 1);
  limits.memory_budget_bytes = 1999 * kMiB;  // holds one unit
  const Solution poor = MustSolve(profile, limits);
  EXPECT_EQ(poor.cost.time_ns, PlainTime(4) + 10 * 5'000'000);
  EXPECT_EQ(poor.plan.prefetch, 0);
}

TEST(PlannerTest, StayingGatheredIsBoughtWhereItHelps) {
  Profile profile = EqualLayers(4);
  profile.gathers = true;
  for (BlockProfile& block : profile.blocks) {
    block.gather_ns = 5'000'000;
    block.whole_bytes = 1000 * kMiB;
  }
  PlanLimits limits{.longest_segment = 1, .smallest_prefetch = 0, .largest_prefetch = 0};
  EXPECT_EQ(MustSolve(profile, limits).cost.time_ns, PlainTime(4) + 6 * 5'000'000);
  limits.memory_budget_bytes = (100 + 200 + 1000 + 2 * 1000) * kMiB;  // the head: its unit, and two that stay
  EXPECT_EQ(MustSolve(profile, limits).cost.time_ns, PlainTime(4) + 8 * 5'000'000);
}

TEST(PlannerTest, OneByteBelowTheSmallestIsRefusedWithTheNumber) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Profile profile = RandomProfile(seed, {.smallest_layers = 0, .largest_layers = 12});
    std::mt19937_64 random(seed);
    PlanLimits limits = RandomLimits(profile, random);
    const int64_t smallest = MustBeSmallest(profile, limits);
    limits.memory_budget_bytes = smallest;
    EXPECT_EQ(MustSolve(profile, limits).cost.peak_bytes, smallest);
    if (smallest == 0) continue;
    limits.memory_budget_bytes = smallest - 1;
    const absl::Status status = Solve(profile, limits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("memory_budget=", smallest - 1, " bytes")));
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("the smallest that does is ", smallest)));
  }
}

// The largest budget that changes anything: what some plan that is fastest without one takes.
void ExpectMonotone(const Profile& profile, PlanLimits limits) {
  const int64_t smallest = MustBeSmallest(profile, limits);
  const int64_t largest = MustSolve(profile, limits).cost.peak_bytes;
  int64_t time = INT64_MAX;
  int64_t peak = 0;
  for (int step = 0; step <= 50; ++step) {
    limits.memory_budget_bytes = smallest + (largest - smallest) / 50 * step;
    if (step == 50) limits.memory_budget_bytes = largest;
    const Solution solution = MustSolve(profile, limits);
    EXPECT_LE(solution.cost.time_ns, time);
    EXPECT_GE(solution.cost.peak_bytes, peak);
    EXPECT_LE(solution.cost.peak_bytes, limits.memory_budget_bytes);
    EXPECT_TRUE(solution.exact());
    time = solution.cost.time_ns;
    peak = solution.cost.peak_bytes;
    // The plan depends on the budget only through what fits: with its own peak as budget it is the same.
    limits.memory_budget_bytes = peak;
    EXPECT_EQ(Letters(MustSolve(profile, limits).plan), Letters(solution.plan));
  }
}

TEST(PlannerTest, ALowerBudgetNeverGivesAHigherPeakNorALowerTime) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Profile profile = RandomProfile(seed, {.smallest_layers = 3, .largest_layers = 14});
    std::mt19937_64 random(seed);
    SCOPED_TRACE(seed);
    ExpectMonotone(profile, RandomLimits(profile, random));
  }
}

TEST(PlannerTest, TiedPlansToo) {
  ExpectMonotone(EqualLayers(24), {.longest_segment = 4});
  Profile profile = EqualLayers(10);
  for (BlockProfile& block : profile.blocks) block.offload_ns = block.reload_ns = 9'000'000;
  ExpectMonotone(profile, {.offloads = true, .longest_segment = 3});
}

TEST(PlannerTest, FewLabelsStillGiveAPlanAndABound) {
  int inexact = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Profile profile = RandomProfile(seed, {.smallest_layers = 15, .largest_layers = 15, .smallest_options = 6});
    PlanLimits limits{.offloads = true};
    limits.memory_budget_bytes = MustBeSmallest(profile, limits);
    limits.memory_budget_bytes += limits.memory_budget_bytes / 5;
    const Solution exact = MustSolve(profile, limits);
    EXPECT_TRUE(exact.exact());
    limits.most_labels = 32;
    const Solution rough = MustSolve(profile, limits);
    EXPECT_LE(rough.bound_ns, exact.cost.time_ns);
    EXPECT_GE(rough.cost.time_ns, exact.cost.time_ns);
    inexact += rough.exact() ? 0 : 1;
  }
  EXPECT_GT(inexact, 0);  // else this tests nothing
}

TEST(PlannerTest, NoLayers) {
  Profile profile = EqualLayers(0);
  const Solution solution = MustSolve(profile, {});
  EXPECT_EQ(solution.cost.time_ns, PlainTime(0));
  EXPECT_TRUE(solution.exact());
  EXPECT_EQ(MustBeSmallest(profile, {}), 100 * kMiB);
  EXPECT_EQ(Solve(profile, {.memory_budget_bytes = 100 * kMiB - 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PlannerTest, RefusesNonsense) {
  const Profile profile = EqualLayers(2);
  for (const PlanLimits& limits :
       {PlanLimits{.memory_budget_bytes = -1}, PlanLimits{.host_budget_bytes = -1}, PlanLimits{.longest_segment = 0},
        PlanLimits{.largest_prefetch = 4}, PlanLimits{.smallest_prefetch = 2}, PlanLimits{.most_labels = 0}}) {
    EXPECT_EQ(Solve(profile, limits).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(SmallestBudget(profile, limits).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Solve(Profile{}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlannerTest, LargeChainsAreExact) {
  const Profile profile = RandomProfile(5, {.smallest_layers = 126,
                                            .largest_layers = 126,
                                            .smallest_options = 8,
                                            .largest_options = 8,
                                            .transfers = false,
                                            .wild = false});
  PlanLimits limits;
  const int64_t largest = MustSolve(profile, limits).cost.peak_bytes;
  const int64_t smallest = MustBeSmallest(profile, limits);
  limits.memory_budget_bytes = smallest + (largest - smallest) / 3;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(MustSolve(profile, limits).exact());
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(passed.count()));
  std::printf("126 layers with 8 options each: %.1f ms\n", passed.count());
}

}  // namespace
}  // namespace reprise
