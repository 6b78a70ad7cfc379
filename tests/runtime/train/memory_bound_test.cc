// The arena against the live bytes, on shapes of GPT-2 124M. Planned, never taken.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "base/bytes.h"
#include "runtime/plan/layout.h"
#include "tests/tools/memory_job.h"

namespace reprise {
namespace {

using ::reprise::testing::ActivationItems;
using ::reprise::testing::AllItems;
using ::reprise::testing::ArenaBound;
using ::reprise::testing::Gpt2SmallJob;
using ::reprise::testing::LargestLiveSum;
using ::reprise::testing::MemoryJob;

KernelSet& Kernels() {
  static KernelSet kernels({.threads = 1});
  return kernels;
}

std::unique_ptr<JobPlan> Plan(const MemoryJob& what) {
  auto plan = MakeJobPlan(Gpt2(what.model), what.options, what.ranks, Kernels());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : nullptr;
}

void ExpectWithinBound(const MemoryJob& what) {
  SCOPED_TRACE(what.ToString());
  const auto plan = Plan(what);
  ASSERT_NE(plan, nullptr);
  const int64_t live = LargestLiveSum(plan->schedule, AllItems);
  EXPECT_EQ(plan->schedule.largest_live_sum, live);
  EXPECT_LE(plan->schedule.device_bytes, ArenaBound(live))
      << "the arena is " << static_cast<double>(plan->schedule.device_bytes) / static_cast<double>(live)
      << " of the live bytes";
}

// No two items that are live at once share a byte, whatever the layout did to be small.
void ExpectDisjoint(const Schedule& schedule) {
  for (size_t a = 0; a < schedule.items.size(); ++a) {
    const Item& x = schedule.items[a];
    for (size_t b = a + 1; b < schedule.items.size(); ++b) {
      const Item& y = schedule.items[b];
      if (x.memory != y.memory || x.first < 0 || y.first < 0 || x.last < y.first || y.last < x.first) continue;
      const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
      ASSERT_TRUE(apart) << x.name << " and " << y.name;
    }
  }
}

class ArenaBoundTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ArenaBoundTest, HoldsForGpt2) {
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    for (const int ranks : {1, 2}) {
      MemoryJob what = Gpt2SmallJob(GetParam(), sharding, ranks);
      ExpectWithinBound(what);
      if (what.options.checkpoint == "none") continue;
      what.options.offload_activations = true;
      what.options.accumulation = 2;
      ExpectWithinBound(what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ArenaBoundTest,
                         ::testing::Values("none", "all", "every:2", "every:3", "every:5", "every:12", "sqrt"));

TEST(ArenaBound, HoldsForBf16AndLongPrefetch) {
  for (const char* policy : {"none", "all", "every:4"}) {
    for (const int prefetch : {0, 3}) {
      MemoryJob what = Gpt2SmallJob(policy, Sharding::kFull, 2);
      what.options.dtype = DType::kBFloat16;
      what.options.prefetch = prefetch;
      ExpectWithinBound(what);
    }
  }
}

TEST(ArenaBound, LiveItemsAreDisjoint) {
  MemoryJob what = Gpt2SmallJob("every:3", Sharding::kFull, 2);
  what.options.offload_activations = true;
  const auto plan = Plan(what);
  ASSERT_NE(plan, nullptr);
  ExpectDisjoint(plan->schedule);
}

TEST(ArenaBound, SqrtOf64Layers) {
  MemoryJob what = Gpt2SmallJob("sqrt", Sharding::kFull, 2);
  what.model.n_layer = 64;
  ExpectWithinBound(what);
}

// shared cases of memory: GPT-2 124M at B=8, T=1024.
MemoryJob LongGpt2(const std::string& checkpoint, DType dtype) {
  MemoryJob what = Gpt2SmallJob(checkpoint, Sharding::kNone, 1);
  what.options.micro_batch = 8;
  what.options.sequence_length = 1024;
  what.options.dtype = dtype;
  return what;
}

// Bytes of what the forwards make and recompute reads first: the boundaries before each layer.
int64_t RetainedBoundaryBytes(const Schedule& schedule) {
  std::vector<bool> made(schedule.items.size(), false);
  std::vector<bool> counted(schedule.items.size(), false);
  int64_t bytes = 0;
  for (const Instruction& instruction : schedule.instructions) {
    for (const Access& access : instruction.accesses) {
      const auto item = static_cast<size_t>(access.item);
      if (schedule.items[item].kind != ItemKind::kRetained) continue;
      if (instruction.kind == InstructionKind::kForward) made[item] = true;
      if (instruction.kind != InstructionKind::kRecompute || !made[item] || counted[item]) continue;
      counted[item] = true;
      bytes += schedule.items[item].bytes;
    }
  }
  return bytes;
}

TEST(MemoryCases, BoundariesOfTwelveLayers) {
  const auto plan = Plan(LongGpt2("all", DType::kBFloat16));
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(RetainedBoundaryBytes(plan->schedule), 150994944);
}

TEST(MemoryCases, OffloadedBoundariesOfTwelveLayers) {
  MemoryJob what = LongGpt2("all", DType::kBFloat16);
  what.options.offload_activations = true;
  const auto plan = Plan(what);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->host_bytes(), 150994944 / 12 * 11);  // the last one stays
}

// With one segment recompute holds every layer's saved values at once; there is nothing that could leave.
TEST(MemoryCases, OffloadDoesNotLowerAPeakOfRecompute) {
  MemoryJob what = LongGpt2("every:12", DType::kBFloat16);
  const auto resident = Plan(what);
  what.options.offload_activations = true;
  const auto offloaded = Plan(what);
  ASSERT_NE(resident, nullptr);
  ASSERT_NE(offloaded, nullptr);
  EXPECT_EQ(offloaded->schedule.device_bytes, resident->schedule.device_bytes);
}

TEST(MemoryCases, LogitsAreNeverHeld) {
  constexpr int64_t kLogitsBytes = 1646821376;  // 8 x 1024 x 50257 x 4
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto plan = Plan(LongGpt2("all", dtype));
    ASSERT_NE(plan, nullptr);
    int64_t chunk = 0;
    for (const Item& item : plan->schedule.items) {
      if (absl::StrContains(item.name, "scratch of linear_cross_entropy")) chunk = std::max(chunk, item.bytes);
      if (!item.persistent()) {
        EXPECT_LT(item.bytes, kLogitsBytes / 4) << item.name;
      }
    }
    EXPECT_GT(chunk, 50257 * 4) << "the loss's chunk is listed among the items";
  }
}

}  // namespace
}  // namespace reprise
