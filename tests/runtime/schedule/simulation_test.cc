#include "runtime/schedule/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "runtime/snapshot/read_model_config.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/job_plan.h"
#include "tests/runtime/schedule/hand_schedule.h"

namespace reprise {
namespace {

using ::reprise::testing::HandSchedule;
using ::testing::HasSubstr;

// A schedule and the times of its instructions, side by side.
struct Chain {
  HandSchedule hand;
  InstructionTimes times;

  int32_t Add(InstructionKind kind, Stream stream, int64_t ns, std::vector<int32_t> waits = {}) {
    times.ns.push_back(ns);
    return hand.Add(kind, stream, {}, std::move(waits));
  }
  int32_t Compute(int64_t ns, std::vector<int32_t> waits = {}) {
    return Add(InstructionKind::kForward, Stream::kCompute, ns, std::move(waits));
  }
  int32_t Gather(int64_t ns, std::vector<int32_t> waits = {}) {
    return Add(InstructionKind::kGather, Stream::kGather, ns, std::move(waits));
  }
  int32_t Reduce(int64_t ns, std::vector<int32_t> waits = {}) {
    return Add(InstructionKind::kReduce, Stream::kReduce, ns, std::move(waits));
  }
  int32_t Offload(int64_t ns, std::vector<int32_t> waits = {}) {
    return Add(InstructionKind::kOffload, Stream::kOffload, ns, std::move(waits));
  }
  Simulation Run(const SimulationOptions& options = {}) const {
    const absl::StatusOr<Simulation> result = Simulate(hand.schedule, times, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : Simulation();
  }
};

TEST(SimulationTest, AHiddenTransferCostsNothing) {
  Chain chain;
  const int32_t first = chain.Compute(100);
  const int32_t copy = chain.Offload(60, {first});
  chain.Compute(100);
  chain.Compute(7, {copy});
  const Simulation s = chain.Run();
  EXPECT_EQ(s.makespan_ns, 207);
  EXPECT_EQ(s.causes[TimeCause::kCompute], 207);
  EXPECT_EQ(s.causes.total(), 207);
  EXPECT_EQ(s.timeline.start_ns[1], 100);
  EXPECT_EQ(s.timeline.end_ns[1], 160);
}

TEST(SimulationTest, AnExposedTransferIsWaitedFor) {
  Chain chain;
  const int32_t gather = chain.Gather(150);
  chain.Compute(100);
  chain.Compute(40, {gather});
  const Simulation s = chain.Run();
  EXPECT_EQ(s.makespan_ns, 190);
  EXPECT_EQ(s.causes[TimeCause::kGather], 50);
  EXPECT_EQ(s.causes[TimeCause::kCompute], 140);
  EXPECT_EQ(s.timeline.start_ns[2], 150);
}

TEST(SimulationTest, EachCauseHasItsTime) {
  Chain chain;
  const int32_t forward = chain.Compute(10);
  const int32_t offload = chain.Offload(25, {forward});
  const int32_t reload = chain.Add(InstructionKind::kReload, Stream::kReload, 45, {forward});
  chain.Add(InstructionKind::kRecompute, Stream::kCompute, 5, {offload, reload});         // 10 .. 35 .. 55 .. 60
  chain.Add(InstructionKind::kBackward, Stream::kCompute, 20);                            // .. 80
  const int32_t reduce = chain.Reduce(9, {4});                                            // .. 89
  const int32_t norm = chain.Add(InstructionKind::kNorm, Stream::kCompute, 1, {reduce});  // .. 90
  const int32_t sum = chain.Add(InstructionKind::kSumScalars, Stream::kReduce, 3, {norm});
  chain.Add(InstructionKind::kFinish, Stream::kCompute, 0, {sum});  // 93
  chain.Add(InstructionKind::kUpdate, Stream::kCompute, 6);         // .. 99
  chain.Gather(12, {9});                                            // .. 111
  const Simulation s = chain.Run();
  EXPECT_EQ(s.makespan_ns, 111);
  EXPECT_EQ(s.causes[TimeCause::kCompute], 30);
  EXPECT_EQ(s.causes[TimeCause::kRecompute], 5);
  EXPECT_EQ(s.causes[TimeCause::kOffload], 25);
  EXPECT_EQ(s.causes[TimeCause::kReload], 20);
  EXPECT_EQ(s.causes[TimeCause::kReduce], 9);
  EXPECT_EQ(s.causes[TimeCause::kOptimizer], 10);
  EXPECT_EQ(s.causes[TimeCause::kGather], 12);
  EXPECT_EQ(s.causes[TimeCause::kOther], 0);
  EXPECT_EQ(s.causes.total(), 111);
}

TEST(SimulationTest, OneSlowHostHoldsAllAtTheCollective) {
  Chain chain;
  chain.Compute(100);
  const int32_t reduce = chain.Reduce(30, {0});
  chain.Compute(10, {reduce});
  const Simulation s = chain.Run({.ranks = 2, .ranks_per_host = 1, .slow_host = 1, .slow_factor = 2});
  // Rank 1 comes at 200, and its part of the collective takes 60.
  EXPECT_EQ(s.timeline.start_ns[1], 200);
  EXPECT_EQ(s.timeline.end_ns[1], 260);
  EXPECT_THAT(s.rank_ns, ::testing::ElementsAre(270, 280));
  EXPECT_EQ(s.makespan_ns, 280);
  EXPECT_EQ(s.causes[TimeCause::kReduce], 160);
}

TEST(SimulationTest, AHostIsSoManyRanks) {
  Chain chain;
  chain.Compute(100);
  const Simulation s = chain.Run({.ranks = 5, .ranks_per_host = 2, .slow_host = 1, .slow_factor = 1.5});
  EXPECT_THAT(s.rank_ns, ::testing::ElementsAre(100, 100, 150, 150, 100));
}

TEST(SimulationTest, ATransferLengthensTheNextBlockInTheList) {
  Chain chain;
  chain.times.interference_millionths[static_cast<size_t>(Stream::kReduce)] = 250'000;
  chain.times.interference_millionths[static_cast<size_t>(Stream::kOffload)] = 1'500'000;
  chain.Compute(100);
  chain.Reduce(10, {0});   // 2.5, half up: 3
  chain.Offload(10, {0});  // 15
  chain.Add(InstructionKind::kNorm, Stream::kCompute, 1);
  chain.Compute(50);
  chain.Compute(50);
  const Simulation s = chain.Run();
  EXPECT_EQ(s.timeline.end_ns[4] - s.timeline.start_ns[4], 68);
  EXPECT_EQ(s.makespan_ns, 100 + 1 + 68 + 50);
}

TEST(SimulationTest, PlanGatesHoldTransfersAtTheirPointOfIssue) {
  Chain chain;
  chain.Compute(100);
  const int32_t gather = chain.Gather(70);  // gated: from 100
  chain.Reduce(500, {0});                   // gated: the block after next waits
  chain.Compute(10);                        // needs neither
  chain.Compute(1, {gather});
  EXPECT_EQ(chain.Run().timeline.start_ns[1], 0);
  EXPECT_EQ(chain.Run().timeline.end_ns[4], 111);
  chain.hand.schedule = WithPlanGates(chain.hand.schedule);
  const Simulation s = chain.Run();
  EXPECT_EQ(s.timeline.start_ns[1], 100);
  EXPECT_EQ(s.timeline.end_ns[3], 110);
  EXPECT_EQ(s.timeline.start_ns[4], 600);
  EXPECT_EQ(s.causes[TimeCause::kGather], 60);
  EXPECT_EQ(s.causes[TimeCause::kReduce], 430);
}

// --- Against an independent computation on random schedules ------------------------------------------------------

Chain RandomChain(std::mt19937_64& random) {
  constexpr std::pair<InstructionKind, Stream> kKinds[] = {
      {InstructionKind::kForward, Stream::kCompute}, {InstructionKind::kBackward, Stream::kCompute},
      {InstructionKind::kGather, Stream::kGather},   {InstructionKind::kReduce, Stream::kReduce},
      {InstructionKind::kOffload, Stream::kOffload}, {InstructionKind::kReload, Stream::kReload}};
  const auto below = [&](uint64_t bound) { return random() % bound; };
  Chain chain;
  const auto count = static_cast<int32_t>(1 + below(40));
  for (int32_t i = 0; i < count; ++i) {
    const auto [kind, stream] = kKinds[below(std::size(kKinds))];
    std::vector<int32_t> waits;
    for (int32_t w = 0; w < i; ++w) {
      if (below(6) == 0 && chain.hand.schedule.instructions[static_cast<size_t>(w)].stream != stream) {
        waits.push_back(w);
      }
    }
    chain.Add(kind, stream, static_cast<int64_t>(below(1000)), std::move(waits));
  }
  return chain;
}

// Ends by (rank, instruction), as longest paths: a node's end is its duration behind the latest of its predecessors;
// a gather or reduction is one node of all ranks.
class LongestPaths {
 public:
  LongestPaths(const Chain& chain, std::vector<double> factors)
      : chain_(chain),
        factors_(std::move(factors)),
        end_(factors_.size(), std::vector<int64_t>(chain.times.ns.size(), -1)) {}

  int64_t End(size_t rank, size_t i) {
    int64_t& known = end_[rank][i];
    if (known >= 0) return known;
    const InstructionKind kind = chain_.hand.schedule.instructions[i].kind;
    if (kind != InstructionKind::kGather && kind != InstructionKind::kReduce) {
      return known = Ready(rank, i) + Duration(rank, i);
    }
    int64_t ready = 0;
    int64_t duration = 0;
    for (size_t r = 0; r < factors_.size(); ++r) {
      ready = std::max(ready, Ready(r, i));
      duration = std::max(duration, Duration(r, i));
    }
    return known = ready + duration;
  }

 private:
  int64_t Duration(size_t rank, size_t i) const {
    return std::llround(static_cast<double>(chain_.times.ns[i]) * factors_[rank]);
  }
  int64_t Ready(size_t rank, size_t i) {
    const std::vector<Instruction>& all = chain_.hand.schedule.instructions;
    int64_t ready = 0;
    for (size_t p = 0; p < i; ++p) {
      const bool waits = std::count(all[i].waits.begin(), all[i].waits.end(), static_cast<int32_t>(p)) > 0;
      if (waits || all[p].stream == all[i].stream) ready = std::max(ready, End(rank, p));
    }
    return ready;
  }

  const Chain& chain_;
  const std::vector<double> factors_;
  std::vector<std::vector<int64_t>> end_;
};

TEST(SimulationTest, EqualsLongestPathsOnRandomSchedules) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const Chain chain = RandomChain(random);
    const int ranks = static_cast<int>(1 + random() % 4);
    const int slow = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    std::vector<double> factors(static_cast<size_t>(ranks), 1.0);
    factors[static_cast<size_t>(slow)] = 1.25;
    LongestPaths paths(chain, factors);
    const Simulation s = chain.Run({.ranks = ranks, .ranks_per_host = 1, .slow_host = slow, .slow_factor = 1.25});
    int64_t makespan = 0;
    for (int r = 0; r < ranks; ++r) {
      int64_t end = 0;
      for (size_t i = 0; i < chain.times.ns.size(); ++i) end = std::max(end, paths.End(static_cast<size_t>(r), i));
      EXPECT_EQ(s.rank_ns[static_cast<size_t>(r)], end) << "trial " << trial << " rank " << r;
      makespan = std::max(makespan, end);
    }
    EXPECT_EQ(s.makespan_ns, makespan);
    for (size_t i = 0; i < chain.times.ns.size(); ++i) EXPECT_EQ(s.timeline.end_ns[i], paths.End(0, i)) << trial;
    EXPECT_EQ(s.causes.total(), s.rank_ns[0]);
  }
}

TEST(SimulationTest, GatesNeverMakeAStepFaster) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 100; ++trial) {
    Chain chain = RandomChain(random);
    const int64_t free = chain.Run().makespan_ns;
    chain.hand.schedule = WithPlanGates(chain.hand.schedule);
    EXPECT_GE(chain.Run().makespan_ns, free);
  }
}

// --- Jitter -------------------------------------------------------------------------------------------------------

TEST(SimulationTest, JitterOfNothingIsNoJitter) {
  std::mt19937_64 random(3);
  const Chain chain = RandomChain(random);
  const Simulation plain = chain.Run({.ranks = 3});
  const Simulation seeded = chain.Run({.ranks = 3, .jitter = 0, .seed = 99, .slow_host = 0, .slow_factor = 1});
  EXPECT_EQ(plain.rank_ns, seeded.rank_ns);
  EXPECT_EQ(plain.timeline.start_ns, seeded.timeline.start_ns);
}

TEST(SimulationTest, JitterLengthensByUpToItsFactorAndFollowsFromTheSeed) {
  Chain chain;
  for (int i = 0; i < 400; ++i) chain.Compute(1'000'000);
  const Simulation one = chain.Run({.jitter = 0.5, .seed = 1});
  EXPECT_EQ(one.makespan_ns, chain.Run({.jitter = 0.5, .seed = 1}).makespan_ns);
  EXPECT_NE(one.makespan_ns, chain.Run({.jitter = 0.5, .seed = 2}).makespan_ns);
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (size_t i = 0; i < 400; ++i) {
    const int64_t ns = one.timeline.end_ns[i] - one.timeline.start_ns[i];
    least = std::min(least, ns);
    most = std::max(most, ns);
  }
  EXPECT_GE(least, 1'000'000);
  EXPECT_LT(least, 1'020'000);  // of 400 draws the least is beyond 4 % with probability 10^-7
  EXPECT_LE(most, 1'500'000);
  EXPECT_GT(most, 1'480'000);
  EXPECT_NEAR(static_cast<double>(one.makespan_ns), 400 * 1.25e6, 400 * 1e6 * 0.04);  // 5.5 standard deviations
}

TEST(SimulationTest, MoreRanksAreNeverFaster) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const Chain chain = RandomChain(random);
    int64_t before = 0;
    for (const int ranks : {1, 2, 3, 8, 64}) {
      const int64_t makespan = chain.Run({.ranks = ranks, .jitter = 0.3, .seed = 4}).makespan_ns;
      EXPECT_GE(makespan, before) << ranks << " ranks";
      before = makespan;
    }
  }
}

// --- Real schedules -----------------------------------------------------------------------------------------------

InstructionTimes TimesOf(const Schedule& schedule) {
  InstructionTimes times;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    times.ns.push_back(1'000'000 + 1000 * static_cast<int64_t>(i % 7));
  }
  return times;
}

// The times of 80 layers over 1,024 ranks, with and without jitter.
TEST(SimulationTest, ThousandRanksOfADeepModel) {
  constexpr int kRanks = 1024;
  auto config = ParseModelConfigFlag(PosixStorage(), "n_layer=80,n_embd=16,n_head=2,vocab_size=64,n_positions=16");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = BuildModel("gpt2", *config, {});
  ASSERT_TRUE(source.ok()) << source.status();
  JobOptions options;
  options.micro_batch = 2;
  options.sequence_length = 8;
  options.checkpoint = "all";
  options.offload_activations = true;
  KernelSet kernels({.threads = 1});
  const auto job = MakeJobPlan(source->model, options, kRanks, kernels);
  ASSERT_TRUE(job.ok()) << job.status();
  const Schedule& schedule = (*job)->schedule;
  EXPECT_GT(schedule.instructions.size(), 600U);
  const InstructionTimes times = TimesOf(schedule);
  const auto quiet = Simulate(schedule, times, {.ranks = kRanks});
  const auto jittered = Simulate(schedule, times, {.ranks = kRanks, .jitter = 0.1, .seed = 1});
  ASSERT_TRUE(quiet.ok() && jittered.ok());
  EXPECT_EQ(quiet->makespan_ns, Simulate(schedule, times, {})->makespan_ns);
  EXPECT_GT(jittered->makespan_ns, quiet->makespan_ns);
  EXPECT_LE(jittered->makespan_ns, quiet->makespan_ns * 11 / 10);
  EXPECT_EQ(jittered->causes.total(), jittered->rank_ns[0]);
}

// --- Bad input ----------------------------------------------------------------------------------------------------

TEST(SimulationTest, RefusesWhatMakesNoSense) {
  Chain chain;
  chain.Compute(10);
  const auto message = [&](const SimulationOptions& options) {
    const auto result = Simulate(chain.hand.schedule, chain.times, options);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  EXPECT_THAT(message({.ranks = 0}), HasSubstr("0"));
  EXPECT_THAT(message({.jitter = -0.5}), HasSubstr("jitter"));
  EXPECT_THAT(message({.jitter = std::numeric_limits<double>::infinity()}), HasSubstr("jitter"));
  EXPECT_THAT(message({.ranks = 4, .ranks_per_host = 2, .slow_host = 2}), HasSubstr("host 2"));
  EXPECT_THAT(message({.slow_host = 0, .slow_factor = 0}), HasSubstr("factor"));
  chain.times.ns[0] = -1;
  EXPECT_THAT(message({}), HasSubstr("forward"));
  chain.times.ns[0] = int64_t{1} << 52;
  EXPECT_THAT(message({.jitter = 3}), HasSubstr("2^53"));
  chain.times.ns.push_back(1);
  EXPECT_THAT(message({}), HasSubstr("2 instructions"));
  chain.times.ns = {1};
  chain.hand.schedule.instructions[0].waits = {0};
  EXPECT_THAT(message({}), HasSubstr("waits for 0"));
}

// --- Attribution --------------------------------------------------------------------------------------------------

// A measured timeline has gaps that no wait explains.
TEST(CausesTest, GapsThatNothingExplainsAreOther) {
  Chain chain;
  const int32_t gather = chain.Gather(0);
  chain.Compute(0, {gather});
  chain.Compute(0);
  const Timeline timeline{.start_ns = {0, 30, 50}, .end_ns = {20, 45, 60}};
  const TimeByCause time = CausesOf(chain.hand.schedule, timeline);
  EXPECT_EQ(time[TimeCause::kGather], 20);
  EXPECT_EQ(time[TimeCause::kOther], 10 + 5);
  EXPECT_EQ(time[TimeCause::kCompute], 15 + 10);
  EXPECT_EQ(time.total(), 60);
}

TEST(CausesTest, AnEmptyScheduleTakesNoTime) { EXPECT_EQ(CausesOf({}, {}).total(), 0); }

}  // namespace
}  // namespace reprise
