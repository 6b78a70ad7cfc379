// The oracle that checks the planner is itself checked: chains worked by hand from docs/plan_profile.md, and the number
// of plans in closed form.
#include "tests/tools/plan_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/every_plan.h"
#include "tests/tools/random_profile.h"

namespace reprise::testing {
namespace {

constexpr LayerPlan kEverything = {.keep = Keep::kEverything};
constexpr LayerPlan kBoundary = {.keep = Keep::kBoundary};
constexpr LayerPlan kShares = {.keep = Keep::kBoundary, .starts_segment = false};

// Small round numbers; sizes here are not multiples of 256, which nothing depends on.
Profile SmallChain(int64_t layers) {
  Profile profile;
  profile.state_bytes = 1000;
  profile.update_ns = 4;
  const BlockProfile first = {.name = "first",
                              .forward_ns = 10,
                              .backward_ns = 10,
                              .gather_ns = 30,
                              .reduce_ns = 25,
                              .whole_bytes = 64,
                              .gradient_held_bytes = 1,
                              .gradient_left_bytes = 1,
                              .forward_bytes = 100,
                              .backward_bytes = 100,
                              .options = {}};
  BlockProfile layer = {.name = "layer",
                        .boundary_bytes = 8,
                        .forward_ns = 20,
                        .backward_ns = 40,
                        .gather_ns = 20,
                        .reduce_ns = 70,
                        .offload_ns = 45,
                        .reload_ns = 60,
                        .whole_bytes = 32,
                        .gradient_held_bytes = 3,
                        .gradient_left_bytes = 5,
                        .recompute_through_ns = 20,
                        .recompute_through_bytes = 66,
                        .remade_bytes = 58,
                        .options = {}};
  layer.options.push_back(
      {.name = "everything", .kept_bytes = 50, .forward_bytes = 70, .forward_bytes_dropped = 65, .backward_bytes = 80});
  layer.options.push_back({.name = "boundary",
                           .keep = Keep::kBoundary,
                           .recompute_ns = 15,
                           .forward_bytes = 30,
                           .forward_bytes_dropped = 25,
                           .recompute_bytes = 60,
                           .backward_bytes = 80});
  BlockProfile last = {.name = "last",
                       .boundary_bytes = 8,
                       .forward_ns = 30,
                       .gather_ns = 30,
                       .reduce_ns = 25,
                       .whole_bytes = 64,
                       .gradient_held_bytes = 2,
                       .gradient_left_bytes = 7,
                       .forward_bytes = 40,
                       .options = {}};
  profile.blocks.push_back(first);
  for (int64_t i = 0; i < layers; ++i) profile.blocks.push_back(layer);
  profile.blocks.push_back(last);
  return profile;
}

Plan PlanOf(std::vector<LayerPlan> layers, int prefetch = 1) {
  return {.policy = "by hand", .layers = std::move(layers), .prefetch = prefetch};
}

void ExpectCost(const Profile& profile, const Plan& plan, const OracleCost& expected) {
  PlanOracle oracle(profile);
  const OracleCost cost = oracle.Cost(plan);
  EXPECT_EQ(cost.time_ns, expected.time_ns) << oracle.Explain(plan);
  EXPECT_EQ(cost.peak_bytes, expected.peak_bytes) << oracle.Explain(plan);
  EXPECT_EQ(cost.host_bytes, expected.host_bytes) << oracle.Explain(plan);
}

// One slot F(0) H: gathered until 30; F(0) to 40, H to 70. Reduce of H 70..95, B(0) 70..80, its reduce 95..120.
TEST(PlanOracle, NoLayers) {
  Profile profile = SmallChain(0);
  profile.gathers = profile.reduces = true;
  ExpectCost(profile, {}, {.time_ns = 124, .peak_bytes = 1164, .host_bytes = 0});  // F(0): 100 + 64
  profile.accumulation = 3;
  ExpectCost(profile, {}, {.time_ns = 364, .peak_bytes = 1164, .host_bytes = 0});
  // The gather adds 0.15 * 30 = 4.5, so 5, to F(0); H's reduce 0.1 * 25, so 3, to B(0); B(0)'s lengthens nothing.
  // F(0) 30..45, H 45..75, reduce 75..100, then B(0)'s 100..125.
  profile.accumulation = 1;
  profile.interference_millionths = {900000, 150000, 100000, 0, 0};
  ExpectCost(profile, {}, {.time_ns = 129, .peak_bytes = 1164, .host_bytes = 0});
}

// 10 + 20 + 20 + 30, R(1) through 20, R(2) 15, 40 + 40, 10.
TEST(PlanOracle, SegmentOfTwoOnOneStream) {
  Profile profile = SmallChain(2);
  // B(2): own 80, layer 1 waits with 58, the boundary before it among them, gradients of H 7.
  ExpectCost(profile, PlanOf({kBoundary, kShares}), {.time_ns = 209, .peak_bytes = 1145, .host_bytes = 0});
  // Whatever the last option keeps stays until the layer's own recompute: layer 2's is there in R(1), not in B(2).
  profile.blocks[2].options.back().kept_bytes = 200;
  // R(1): own 66, kept 200, gradients 7 + 2.
  ExpectCost(profile, PlanOf({kBoundary, kShares}), {.time_ns = 209, .peak_bytes = 1275, .host_bytes = 0});
}

TEST(PlanOracle, EverythingOnOneStream) {
  const Profile profile = SmallChain(2);
  // B(2): own 80, layer 1 keeps 50 + 8, gradients 7 + 2. H: own 40, kept 116.
  ExpectCost(profile, PlanOf({kEverything, kEverything}), {.time_ns = 174, .peak_bytes = 1156, .host_bytes = 0});
  // A boundary that backward does not read is dropped in forward: H 40 + 50 + 58; B(2) 80 + 50 + 9.
  Profile unread = profile;
  unread.blocks[1].options.front().reads_boundary = false;
  ExpectCost(unread, PlanOf({kEverything, kEverything}), {.time_ns = 174, .peak_bytes = 1148, .host_bytes = 0});
}

// F(0) 0..10, offload 1 10..55, F(1) 10..30, offload 2 55..100, F(2) waits for offload 1: 55..75. H waits for offload
// 2: 100..130. Reload 2, issued before H, waits for its offload: 100..160; reload 1, before R(2): 160..220.
// R(2) 160..175, B(2) ..215, R(1) waits for reload 1: 220..235, B(1) ..275, B(0) ..285.
TEST(PlanOracle, OffloadAndReload) {
  const LayerPlan offloaded = {.keep = Keep::kBoundary, .offload_boundary = true};
  Profile profile = SmallChain(2);
  // B(0): 100, gradients 7 + 5 + 5 + 3.
  ExpectCost(profile, PlanOf({offloaded, offloaded}), {.time_ns = 289, .peak_bytes = 1120, .host_bytes = 16});
  // Without the ends: B(2) has 80, reload 1 in flight 8, gradients 7. R(2) has 9 of gradients, H 40 + 8.
  profile.blocks.front().forward_bytes = profile.blocks.front().backward_bytes = 0;
  ExpectCost(profile, PlanOf({offloaded, offloaded}), {.time_ns = 289, .peak_bytes = 1095, .host_bytes = 16});
  // An offload of 45 and a reload of 60 lengthen by 0.1: 5 (4.5) and 6. F(1) 10..35 and offload 2 55..100, F(2) 55..80,
  // H 100..136, R(2) 160..181, B(2) ..221, R(1) 221..236, B(1) ..276, B(0) ..286.
  profile.interference_millionths = {0, 0, 0, 100000, 100000};
  ExpectCost(profile, PlanOf({offloaded, offloaded}), {.time_ns = 290, .peak_bytes = 1095, .host_bytes = 16});
}

// Two ahead: gathers 0..30, 30..50, 50..80, and of B(1)'s slot, issued before F(1), 80..100. F(0) 30..40, F(1) 50..70,
// H 80..110, B(1) 110..150, B(0) ..160; reduces 110..135, 150..220, 220..245.
TEST(PlanOracle, GathersAhead) {
  Profile profile = SmallChain(1);
  profile.gathers = profile.reduces = true;
  // F(0): own 100, gathered 64, 32 and 64 for H.
  ExpectCost(profile, PlanOf({kEverything}, 2), {.time_ns = 249, .peak_bytes = 1260, .host_bytes = 0});
}

// None ahead: F(0) 30..40, F(1) 60..80, H 110..140, B(1) needs no gather: 140..180, B(0) ..190; reduces 140..165,
// 180..250, 250..275.
TEST(PlanOracle, StaysGathered) {
  Profile profile = SmallChain(1);
  profile.gathers = profile.reduces = true;
  const LayerPlan stays = {.keep = Keep::kEverything, .stays_gathered = true};
  // H: own 40, kept 58, layer 1 whole 32, root 64.
  ExpectCost(profile, PlanOf({stays}, 0), {.time_ns = 279, .peak_bytes = 1194, .host_bytes = 0});
}

// Reduces of 100: B(0), two behind B(2), waits for B(2)'s, which waits for H's. H ..80, B(2) 80..120, B(1) waits for
// H's reduce 80..180: 180..220; B(2)'s 180..280: B(0) 280..290; then B(1)'s 280..380 and B(0)'s 380..480.
TEST(PlanOracle, StepsWaitForReduces) {
  Profile profile = SmallChain(2);
  profile.reduces = true;
  for (BlockProfile& block : profile.blocks) block.reduce_ns = 100;
  ExpectCost(profile, PlanOf({kEverything, kEverything}), {.time_ns = 484, .peak_bytes = 1156, .host_bytes = 0});
}

TEST(EveryPlan, CountInClosedForm) {
  // Compositions of 5 into parts of which a part of one has two options: a(n) = 2 a(n-1) + a(n-2) + a(n-3) + ...
  EXPECT_EQ(CountPlans(SmallChain(5), {.longest_segment = 1}), 32);
  EXPECT_EQ(CountPlans(SmallChain(5), {.longest_segment = 2}), 70);  // Pell: 1 2 5 12 29 70
  EXPECT_EQ(CountPlans(SmallChain(5), {.longest_segment = 5}), 89);  // Fibonacci: 1 2 5 13 34 89
  // Each option offloaded or not: 4 ways for one, 2 for a longer segment: 1 4 18.
  EXPECT_EQ(CountPlans(SmallChain(2), {.offloads = true, .longest_segment = 5}), 18);
  Profile profile = SmallChain(3);
  profile.gathers = true;
  EXPECT_EQ(CountPlans(profile, {.longest_segment = 1, .smallest_prefetch = 1, .largest_prefetch = 3}), 3 * 64);
  EXPECT_EQ(CountPlans(profile, {.stays_gathered = false, .longest_segment = 1}), 8);
}

TEST(EveryPlan, VisitsEachOnce) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    const Profile profile = RandomProfile(seed, {.largest_layers = 3, .largest_options = 3});
    const PlanLimits limits = RandomLimits(profile, random);
    std::vector<std::string> letters;
    ForEachPlan(profile, limits, [&](const Plan& plan) { letters.push_back(PlanLetters(profile, plan)); });
    EXPECT_EQ(static_cast<int64_t>(letters.size()), CountPlans(profile, limits));
    std::sort(letters.begin(), letters.end());
    EXPECT_EQ(std::adjacent_find(letters.begin(), letters.end()), letters.end());
    for (int i = 0; i < 20; ++i) {  // and random plans are among them
      const std::string drawn = PlanLetters(profile, RandomPlan(profile, limits, 0.6, random));
      EXPECT_TRUE(std::binary_search(letters.begin(), letters.end(), drawn)) << drawn;
    }
  }
}

}  // namespace
}  // namespace reprise::testing
