// Plans by hand: which layers keep what, which boundaries leave, and what is refused.
#include "runtime/plan/by_hand.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

namespace reprise {
namespace {

absl::StatusOr<int64_t> NobodyAsks(const Plan& /*plan*/) {
  ADD_FAILURE() << "only sqrt asks for peaks";
  return 0;
}

Plan Make(const HandPlan& request, const PeakOf& peak_of = NobodyAsks) {
  const absl::StatusOr<Plan> plan = ByHand(request, peak_of);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : Plan();
}

// A letter a layer: e keeps everything, B starts a segment, b belongs to one, O starts one whose boundary leaves.
std::string Letters(const Plan& plan) {
  std::string letters;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.keep == Keep::kEverything) {
      letters += 'e';
    } else {
      letters += layer.offload_boundary ? 'O' : layer.starts_segment ? 'B' : 'b';
    }
  }
  return letters;
}

// Policies are for the layers that have a backward.
TEST(ByHand, LayersWithoutABackwardKeepNothing) {
  EXPECT_EQ(Letters(Make({.policy = "none", .layers = 5, .forward_only = 2})), "eeeee");
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 5, .forward_only = 2})), "eeBBB");
  EXPECT_EQ(Letters(Make({.policy = "every:2", .layers = 6, .forward_only = 1})), "eBbBbB");
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 3, .forward_only = 3})), "eee");
  const auto peak = [](const Plan& plan) -> absl::StatusOr<int64_t> {
    EXPECT_EQ(plan.layers.size(), 5u);
    return std::abs(plan.segment_count() - 2);
  };
  EXPECT_EQ(Letters(Make({.policy = "sqrt", .layers = 5, .forward_only = 1}, peak)), "eBbBb");
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 5, .forward_only = 2, .offload_activations = true})), "eeOOB");
}

TEST(ByHand, Policies) {
  EXPECT_EQ(Letters(Make({.policy = "none", .layers = 5})), "eeeee");
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 5})), "BBBBB");
  EXPECT_EQ(Letters(Make({.policy = "every:1", .layers = 5})), "BBBBB");
  EXPECT_EQ(Letters(Make({.policy = "every:2", .layers = 5})), "BbBbB");
  EXPECT_EQ(Letters(Make({.policy = "every:3", .layers = 7})), "BbbBbbB");
  EXPECT_EQ(Letters(Make({.policy = "every:5", .layers = 5})), "Bbbbb");
  EXPECT_EQ(Letters(Make({.policy = "every:99", .layers = 5})), "Bbbbb");
}

TEST(ByHand, CarriesNameAndPrefetch) {
  const Plan plan = Make({.policy = "every:2", .layers = 5, .prefetch = 3});
  EXPECT_EQ(plan.policy, "every:2");
  EXPECT_EQ(plan.prefetch, 3);
  EXPECT_EQ(plan.segment_count(), 3);
  EXPECT_EQ(plan.offloaded_boundaries(), 0);
}

TEST(ByHand, OffloadLeavesTheLastBoundary) {
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 4, .offload_activations = true, .boundary_bytes = 100})), "OOOB");
  EXPECT_EQ(Letters(Make({.policy = "every:2", .layers = 5, .offload_activations = true})), "ObObB");
  EXPECT_EQ(Letters(Make({.policy = "all", .layers = 1, .offload_activations = true})), "B");
}

TEST(ByHand, HostBudgetIsFilledFromTheFront) {
  const auto offloaded = [](int64_t budget) {
    return Letters(Make({.policy = "all",
                         .layers = 5,
                         .offload_activations = true,
                         .boundary_bytes = 100,
                         .host_budget_bytes = budget}));
  };
  EXPECT_EQ(offloaded(100), "OBBBB");
  EXPECT_EQ(offloaded(199), "OBBBB");
  EXPECT_EQ(offloaded(300), "OOOBB");
  EXPECT_EQ(offloaded(100000), "OOOOB");
}

TEST(ByHand, HostBudgetThatHoldsNoBoundaryIsRefusedWithTheMend) {
  const absl::Status status =
      ByHand(
          {.policy = "all", .layers = 5, .offload_activations = true, .boundary_bytes = 100, .host_budget_bytes = 99},
          NobodyAsks)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "host_budget=99")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "at least 100 bytes")) << status;
}

TEST(ByHand, OffloadOfNothingIsRefused) {
  const absl::Status status = ByHand({.policy = "none", .layers = 5, .offload_activations = true}, NobodyAsks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "checkpoint=none")) << status;
}

HandPlan SelectivePlan(bool offload, std::vector<SelectiveLayer> layers) {
  HandPlan request{.policy = "selective", .layers = 4, .offload_activations = offload, .boundary_bytes = 100};
  request.selective = std::move(layers);
  return request;
}

TEST(ByHand, SelectiveKeepsTheSetsThatItIsGiven) {
  const std::vector<SelectiveLayer> layers = {{2, true}, {0, true}, {2, false}, {1, true}};
  for (const bool offload : {false, true}) {
    const Plan plan = Make(SelectivePlan(offload, layers));
    EXPECT_EQ(plan.policy, "selective");
    for (size_t i = 0; i < layers.size(); ++i) {
      EXPECT_EQ(plan.layers[i].keep, Keep::kSet);
      EXPECT_EQ(plan.layers[i].set, layers[i].set);
      EXPECT_TRUE(plan.layers[i].starts_segment);
    }
    // Of the boundaries that are read, all but the last leave.
    EXPECT_EQ(Letters(plan), offload ? "OOBB" : "BBBB");
  }
  HandPlan tight = SelectivePlan(true, layers);
  tight.host_budget_bytes = 199;
  EXPECT_EQ(Letters(Make(tight)), "OBBB");
  tight.host_budget_bytes = 99;
  EXPECT_EQ(ByHand(tight, NobodyAsks).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ByHand, SelectiveOffloadWantsABoundaryThatIsRead) {
  const std::vector<SelectiveLayer> layers(4, {0, false});
  EXPECT_EQ(Letters(Make(SelectivePlan(false, layers))), "BBBB");
  const absl::Status status = ByHand(SelectivePlan(true, layers), NobodyAsks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "checkpoint=selective retains none")) << status;
}

TEST(ByHand, UnknownPoliciesAreRefusedByName) {
  for (const std::string policy :
       {"", "every", "every:", "every:0", "every:-1", "every:2.5", "every:x", "some", "All"}) {
    const absl::Status status = ByHand({.policy = policy, .layers = 5}, NobodyAsks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << policy;
    EXPECT_TRUE(absl::StrContains(status.message(), "\"" + policy + "\"")) << status;
  }
}

int64_t FirstSegment(const Plan& plan) {
  int64_t k = 1;
  while (k < static_cast<int64_t>(plan.layers.size()) && !plan.layers[static_cast<size_t>(k)].starts_segment) ++k;
  return k;
}

TEST(Sqrt, TakesTheLeastPeak) {
  for (int64_t best = 1; best <= 9; ++best) {
    const Plan plan =
        Make({.policy = "sqrt", .layers = 9}, [&](const Plan& p) { return 100 + std::abs(FirstSegment(p) - best); });
    EXPECT_EQ(FirstSegment(plan), best);
    EXPECT_EQ(plan.policy, "sqrt");
  }
}

TEST(Sqrt, TiesGoToTheSmallerK) {
  EXPECT_EQ(FirstSegment(Make({.policy = "sqrt", .layers = 9}, [](const Plan&) { return 100; })), 1);
  EXPECT_EQ(FirstSegment(
                Make({.policy = "sqrt", .layers = 9}, [](const Plan& p) { return FirstSegment(p) >= 3 ? 100 : 101; })),
            3);
}

TEST(Sqrt, AsksWithOffload) {
  int asked = 0;
  const Plan plan = Make({.policy = "sqrt", .layers = 6, .offload_activations = true}, [&](const Plan& p) {
    ++asked;
    EXPECT_EQ(p.offloaded_boundaries(), p.segment_count() - 1);
    return FirstSegment(p) == 2 ? 1 : 2;
  });
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(Letters(plan), "ObObBb");
}

TEST(Sqrt, AnErrorOfThePredictionIsHandedOn) {
  const auto fails = [](const Plan&) -> absl::StatusOr<int64_t> { return absl::UnimplementedError("no kernel"); };
  EXPECT_EQ(ByHand({.policy = "sqrt", .layers = 3}, fails).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace reprise
