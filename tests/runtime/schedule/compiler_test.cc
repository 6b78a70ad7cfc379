#include "runtime/schedule/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/schedules.h"

namespace reprise {
namespace {

using ::reprise::testing::SmallJob;

constexpr int64_t kAlignment = 256;

int64_t CountOf(const Schedule& schedule, InstructionKind kind) {
  return std::count_if(schedule.instructions.begin(), schedule.instructions.end(),
                       [kind](const Instruction& i) { return i.kind == kind; });
}

bool IsBlock(const Instruction& i) { return i.stream == Stream::kCompute && i.block >= 0; }

JobOptions OptionsOf(const std::string& policy, bool offload = false) {
  JobOptions options;
  options.checkpoint = policy;
  options.offload_activations = offload;
  options.evaluates = true;
  return options;
}

// Segments of K layers, and what is left over.
std::vector<int> Segments(int layers, int length) {
  std::vector<int> segments;
  for (int first = 0; first < layers; first += length) segments.push_back(std::min(length, layers - first));
  return segments;
}

// Gathers of a micro-batch: 2 for the root, 2 a layer with one-layer segments or none, 3K - 1 for a segment of K.
TEST(CompilerTest, GathersFollowTheirClosedForm) {
  const std::vector<std::pair<std::string, int>> policies = {{"none", 0}, {"all", 1}, {"every:2", 2}, {"every:7", 7}};
  for (const auto& [policy, length] : policies) {
    for (const int accumulation : {1, 3}) {
      for (const int prefetch : {0, 2}) {
        JobOptions options = OptionsOf(policy);
        options.accumulation = accumulation;
        options.prefetch = prefetch;
        const SmallJob job(options, 2, "gpt2_deep");
        int64_t expected = 2;
        for (const int k : Segments(job.layers(), std::max(length, 1))) expected += k == 1 ? 2 : 3 * k - 1;
        EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kGather), expected * accumulation)
            << policy << " accumulation " << accumulation << " prefetch " << prefetch;
      }
    }
  }
}

TEST(CompilerTest, OtherShardingsCommunicateOnceAUnit) {
  for (const int ranks : {1, 2}) {
    for (const Sharding sharding : {Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
      JobOptions options = OptionsOf("all");
      options.sharding = sharding;
      options.accumulation = 2;
      const SmallJob job(options, ranks);
      const int64_t units = job.layers() + 1;
      const bool none = sharding == Sharding::kNone;
      EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kGather), none ? 0 : units);
      EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kGatherGradients), none && ranks > 1 ? units : 0);
      // The root unit's gradients come twice; `gradients` reduces in each micro-batch, the others at the end.
      const int64_t reductions = sharding == Sharding::kGradients ? 2 * (units + 1) : ranks > 1 ? units + 1 : 0;
      EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kReduce), reductions);
    }
  }
}

TEST(CompilerTest, EveryBoundaryButTheLastIsOffloaded) {
  for (const auto& [policy, length] : std::vector<std::pair<std::string, int>>{{"all", 1}, {"every:3", 3}}) {
    JobOptions options = OptionsOf(policy, true);
    options.accumulation = 2;
    const SmallJob job(options, 2, "gpt2_deep");
    const auto offloads = static_cast<int64_t>(Segments(job.layers(), length).size() - 1);
    EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kOffload), 2 * offloads) << policy;
    EXPECT_EQ(CountOf(job.schedule(), InstructionKind::kReload), 2 * offloads) << policy;
    for (const Instruction& i : job.schedule().instructions) {
      if (i.kind != InstructionKind::kOffload) continue;
      EXPECT_EQ(i.count, 2 * 8 * 16 * 4) << policy;  // [2, 8, n_embd] in float32
    }
    EXPECT_EQ(CountOf(SmallJob(OptionsOf(policy), 2).schedule(), InstructionKind::kOffload), 0);
  }
}

TEST(CompilerTest, AReloadIsABlockAhead) {
  for (const char* policy : {"all", "every:2"}) {
    const SmallJob job(OptionsOf(policy, true), 2, "gpt2_deep");
    const std::vector<Instruction>& list = job.schedule().instructions;
    for (size_t r = 0; r < list.size(); ++r) {
      if (list[r].kind != InstructionKind::kReload) continue;
      int blocks_between = 0;
      for (size_t i = r + 1; list[i].kind != InstructionKind::kRecompute || list[i].block != list[r].block; ++i) {
        ASSERT_LT(i + 1, list.size());
        if (IsBlock(list[i])) ++blocks_between;
      }
      EXPECT_GE(blocks_between, 1) << policy << " " << job.schedule().InstructionText(static_cast<int32_t>(r));
    }
  }
}

// What an offload or a reduction reads stays until the next block's instruction is over, so compute need not wait.
TEST(CompilerTest, MemoryThatCopiesReadStaysForABlock) {
  const SmallJob job(OptionsOf("all", true));
  const std::vector<Instruction>& list = job.schedule().instructions;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind != InstructionKind::kOffload && list[i].kind != InstructionKind::kReduce) continue;
    const auto next = std::find_if(list.begin() + static_cast<std::ptrdiff_t>(i), list.end(), IsBlock);
    if (next == list.end()) continue;
    EXPECT_GE(job.schedule().items[static_cast<size_t>(list[i].from.item)].last, next->last_tick)
        << job.schedule().InstructionText(static_cast<int32_t>(i));
  }
}

int64_t RoundedUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Live bytes at each tick, by looking at every item.
std::vector<int64_t> LiveBytes(const Schedule& schedule) {
  std::vector<int64_t> live(static_cast<size_t>(schedule.instructions.back().last_tick) + 2, 0);
  for (const Item& item : schedule.items) {
    if (item.memory != Memory::kDevice || item.first < 0) continue;
    for (int64_t tick = item.first; tick <= item.last; ++tick) live[static_cast<size_t>(tick)] += RoundedUp(item.bytes);
  }
  return live;
}

TEST(CompilerTest, ThePeakIsTheLargestSumOfLiveBytes) {
  for (const char* policy : {"none", "all", "every:2", "sqrt"}) {
    const SmallJob job(OptionsOf(policy));
    const Schedule& schedule = job.schedule();
    const std::vector<int64_t> live = LiveBytes(schedule);
    const auto largest = std::max_element(live.begin(), live.end());
    EXPECT_EQ(schedule.largest_live_sum, *largest) << policy;
    EXPECT_EQ(schedule.peak_tick, largest - live.begin()) << policy;
    EXPECT_GE(schedule.device_bytes, *largest) << policy;
    EXPECT_LE(static_cast<double>(schedule.device_bytes), 1.1 * static_cast<double>(*largest)) << policy;
    const Instruction& peak = schedule.instructions[static_cast<size_t>(schedule.PeakInstruction())];
    EXPECT_LE(peak.first_tick, schedule.peak_tick) << policy;
    EXPECT_GE(peak.last_tick, schedule.peak_tick) << policy;
    int64_t at_peak = 0;
    for (const int32_t item : schedule.ItemsAtPeak()) {
      at_peak += RoundedUp(schedule.items[static_cast<size_t>(item)].bytes);
    }
    EXPECT_EQ(at_peak, *largest) << policy;
  }
}

TEST(CompilerTest, CheckpointsTakeLessAndOffloadLessStill) {
  const auto job = [](const std::string& policy, bool offload) {
    JobOptions options = OptionsOf(policy, offload);
    options.micro_batch = 32;  // boundaries outweigh the gradient shards that take their place
    options.sequence_length = 12;
    return SmallJob(options, 2, "gpt2_deep");
  };
  const SmallJob none = job("none", false);
  const SmallJob all = job("all", false);
  const SmallJob offloaded = job("all", true);
  EXPECT_LT(all.schedule().device_bytes, none.schedule().device_bytes);
  EXPECT_LT(offloaded.schedule().device_bytes, all.schedule().device_bytes);
  EXPECT_EQ(all.schedule().host_bytes, 0);
  EXPECT_EQ(offloaded.schedule().host_bytes, (offloaded.layers() - 1) * 32 * 12 * 16 * 4);
}

TEST(CompilerTest, EvaluationFindsStateAndBatchWhereTrainingHasThem) {
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kNone}) {
    JobOptions options = OptionsOf("all");
    options.sharding = sharding;
    options.accumulation = 2;
    const SmallJob job(options);
    const Schedule& evaluation = job.plan().evaluation_schedule;
    for (size_t u = 0; u < evaluation.unit_states.size(); ++u) {
      const auto a = static_cast<size_t>(evaluation.unit_states[u].master.item);
      const auto b = static_cast<size_t>(job.schedule().unit_states[u].master.item);
      EXPECT_EQ(evaluation.items[a].offset, job.schedule().items[b].offset);
    }
    for (const DataKind kind : {DataKind::kTokens, DataKind::kLabels}) {
      EXPECT_EQ(evaluation.items[static_cast<size_t>(evaluation.items_of(kind).at(0))].offset,
                job.schedule().items[static_cast<size_t>(job.schedule().items_of(kind).at(0))].offset);
    }
    EXPECT_EQ(CountOf(evaluation, InstructionKind::kBackward), 0);
    EXPECT_EQ(CountOf(evaluation, InstructionKind::kUpdate), 0);
  }
}

TEST(CompilerTest, EqualSettingsGiveEqualSchedules) {
  const SmallJob a(OptionsOf("all", true));
  EXPECT_EQ(a.schedule().Hash(), SmallJob(OptionsOf("all", true)).schedule().Hash());
  EXPECT_NE(a.schedule().Hash(), SmallJob(OptionsOf("all")).schedule().Hash());
  EXPECT_NE(a.schedule().Hash(), SmallJob(OptionsOf("all", true), 3).schedule().Hash());
  JobOptions ahead = OptionsOf("all", true);
  ahead.prefetch = 2;
  EXPECT_NE(a.schedule().Hash(), SmallJob(ahead).schedule().Hash());
}

}  // namespace
}  // namespace reprise
