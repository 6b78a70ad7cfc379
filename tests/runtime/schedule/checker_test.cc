#include "runtime/schedule/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/runtime/schedule/hand_schedule.h"
#include "tests/tools/schedules.h"

namespace reprise {
namespace {

using ::reprise::testing::HandSchedule;
using ::reprise::testing::SmallJob;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- Compiled schedules
// -----------------------------------------------------------------------------------------------

struct CompiledCase {
  std::string policy;
  bool offload = false;
  Sharding sharding = Sharding::kFull;
  int ranks = 2;
  int accumulation = 1;
  DType dtype = DType::kFloat32;
};

JobOptions OptionsOf(const CompiledCase& c) {
  JobOptions options;
  options.checkpoint = c.policy;
  options.offload_activations = c.offload;
  options.sharding = c.sharding;
  options.accumulation = c.accumulation;
  options.dtype = c.dtype;
  options.evaluates = true;
  return options;
}

std::vector<CompiledCase> CompiledCases() {
  std::vector<CompiledCase> cases;
  for (const char* policy : {"none", "all", "every:2", "sqrt"}) {
    for (const bool offload : {false, true}) {
      if (offload && std::string(policy) == "none") continue;
      cases.push_back({policy, offload});
    }
  }
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    cases.push_back({"all", true, sharding, 3, 2, DType::kBFloat16});
    cases.push_back({"every:2", true, sharding, 1, 3});
  }
  return cases;
}

TEST(CheckerTest, CompiledSchedulesPass) {
  for (const CompiledCase& c : CompiledCases()) {
    const SmallJob job(OptionsOf(c), c.ranks);
    const std::string name = absl::StrCat(c.policy, " offload ", c.offload, " sharding ", static_cast<int>(c.sharding),
                                          " ranks ", c.ranks, " accumulation ", c.accumulation);
    EXPECT_EQ(Check(job.schedule()), absl::OkStatus()) << name;
    EXPECT_EQ(Check(job.plan().evaluation_schedule), absl::OkStatus()) << name;
    EXPECT_TRUE(RedundantWaits(job.schedule()).empty()) << name;
    EXPECT_EQ(CheckAcrossRanks({&job.schedule(), &job.schedule(), &job.schedule()}), absl::OkStatus()) << name;
  }
}

struct StreamUse {
  int instructions = 0;
  int waits = 0;       // of its instructions, for other streams
  int waited_for = 0;  // waits of other streams for it
};

std::array<StreamUse, kStreamCount> UseOf(const Schedule& schedule) {
  std::array<StreamUse, kStreamCount> use{};
  for (const Instruction& i : schedule.instructions) {
    ++use[static_cast<size_t>(i.stream)].instructions;
    use[static_cast<size_t>(i.stream)].waits += static_cast<int>(i.waits.size());
    for (const int32_t wait : i.waits) {
      ++use[static_cast<size_t>(schedule.instructions[static_cast<size_t>(wait)].stream)].waited_for;
    }
  }
  return use;
}

// A boundary that stays resident has no copy: the streams of transfers have a wait for each that does not.
TEST(CheckerTest, FiveStreamsAreInUseWithAWaitALayer) {
  for (const char* fixture : {"gpt2", "gpt2_deep"}) {
    const SmallJob job(OptionsOf({"all", true}), 2, fixture);
    const std::array<StreamUse, kStreamCount> use = UseOf(job.schedule());
    const auto offloaded = static_cast<int>(job.plan().plan.offloaded_boundaries());
    EXPECT_GE(offloaded, job.layers() - 2);
    for (const Stream stream : kAllStreams) {
      const StreamUse& u = use[static_cast<size_t>(stream)];
      const bool transfers = stream == Stream::kOffload || stream == Stream::kReload;
      const int layers = transfers ? offloaded : job.layers();
      EXPECT_GE(u.instructions, layers) << fixture << " " << StreamName(stream);
      EXPECT_GE(u.waits + u.waited_for, layers) << fixture << " " << StreamName(stream);
      EXPECT_GE(u.waits, 1) << fixture << " " << StreamName(stream);
      EXPECT_GE(u.waited_for, 1) << fixture << " " << StreamName(stream);
    }
  }
}

TEST(CheckerTest, NoWaitCanBeTakenOut) {
  for (const char* policy : {"all", "every:2"}) {
    const SmallJob job(OptionsOf({policy, true}));
    Schedule schedule = job.schedule();
    int taken_out = 0;
    for (Instruction& instruction : schedule.instructions) {
      const std::vector<int32_t> waits = instruction.waits;
      for (size_t w = 0; w < waits.size(); ++w, ++taken_out) {
        instruction.waits.erase(instruction.waits.begin() + static_cast<std::ptrdiff_t>(w));
        EXPECT_EQ(Check(schedule).code(), absl::StatusCode::kInternal) << policy << " wait for " << waits[w];
        instruction.waits = waits;
      }
    }
    EXPECT_GE(taken_out, 5 * job.layers()) << policy;
  }
}

TEST(CheckerTest, UnitsWholeFollowThePrefetch) {
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    for (const char* policy : {"none", "all", "every:2", "every:3"}) {
      JobOptions options = OptionsOf({policy});
      options.prefetch = prefetch;
      const SmallJob job(options, 2, "gpt2_deep");
      EXPECT_LE(MostUnitsWhole(job.schedule()), 1 + prefetch) << policy;
      EXPECT_LE(MostUnitsWhole(job.plan().evaluation_schedule), 1 + prefetch) << policy;
      EXPECT_GE(MostUnitsWhole(job.schedule()), std::min(1 + prefetch, 2)) << policy;
    }
  }
}

// --- Faults by hand
// ---------------------------------------------------------------------------------------------------

void ExpectRefused(const Schedule& schedule, const std::vector<std::string>& names) {
  const absl::Status status = Check(schedule);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  for (const std::string& name : names) EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

// A gather, the forward that uses it, a second gather into the same bytes, and its forward.
struct TwoGathers : HandSchedule {
  int32_t first = AddItem("h.0 gathered", 0, 512, ItemKind::kGathered);
  int32_t second = AddItem("h.1 gathered", 256, 512, ItemKind::kGathered);
  int32_t gather_first = Gather(0, {{first, true}});
  int32_t forward_first = Compute({{first, false}}, {gather_first});
  int32_t gather_second = Gather(1, {{second, true}}, {forward_first});
  int32_t forward_second = Compute({{second, false}}, {gather_second});
};

TEST(CheckerTest, HandScheduleThatIsRightPasses) {
  EXPECT_EQ(Check(TwoGathers().schedule), absl::OkStatus());
  EXPECT_EQ(MostUnitsWhole(TwoGathers().schedule), 1);
  EXPECT_EQ(Check(Schedule()), absl::OkStatus());
}

TEST(CheckerTest, ReadThatDoesNotWaitForItsWrite) {
  TwoGathers hand;
  hand.schedule.instructions[1].waits.clear();
  ExpectRefused(hand.schedule, {"instruction 1 (forward [compute]) reads item 0 (h.0 gathered)",
                                "instruction 0 (gather unit 0 [gather]), which writes it"});
}

TEST(CheckerTest, WriteThatDoesNotWaitForAReader) {
  TwoGathers hand;
  const int32_t again = hand.Gather(1, {{hand.second, true}});
  ExpectRefused(hand.schedule, {absl::StrCat("instruction ", again, " (gather unit 1 [gather]) writes"),
                                "instruction 3 (forward [compute] waits 2), which reads it"});
}

TEST(CheckerTest, MemoryThatIsTakenOverTooEarly) {
  TwoGathers hand;
  hand.schedule.instructions[2].waits.clear();
  ExpectRefused(hand.schedule,
                {"instruction 2 (gather unit 1 [gather]) uses item 1 (h.1 gathered)",
                 "takes over bytes of item 0 (h.0 gathered)", "before instruction 1 (forward [compute] waits 0)"});
}

TEST(CheckerTest, ItemsThatOverlapWhileBothAreLive) {
  TwoGathers hand;
  hand.schedule.items[0].last = hand.schedule.items[1].first;
  ExpectRefused(hand.schedule, {"item 0 (h.0 gathered) and item 1 (h.1 gathered) share bytes", "tick 2"});
}

TEST(CheckerTest, StateSharesItsBytesWithNobody) {
  TwoGathers hand;
  hand.AddItem("wte parameters", 256, 4, ItemKind::kState);
  ExpectRefused(hand.schedule, {"item 2 (wte parameters)", "share bytes"});
}

TEST(CheckerTest, UseAfterTheItemWasGivenBack) {
  TwoGathers hand;
  hand.schedule.items[1].last = 2;
  ExpectRefused(hand.schedule, {"instruction 3", "item 1 (h.1 gathered) at tick 3", "lifetime of ticks 2 to 2"});
}

TEST(CheckerTest, ReadBeforeAnyWrite) {
  HandSchedule hand;
  const int32_t item = hand.AddItem("boundary 1", 0, 256);
  hand.Compute({{item, false}});
  ExpectRefused(hand.schedule, {"instruction 0", "item 0 (boundary 1), which nobody writes"});
  hand.Compute({{item, true}});
  ExpectRefused(hand.schedule, {"instruction 0 (forward [compute]) reads item 0 (boundary 1) before instruction 1"});
  hand.schedule.items[0].kind = ItemKind::kState;
  EXPECT_EQ(Check(hand.schedule), absl::OkStatus());
}

TEST(CheckerTest, ReloadBeforeItsOffload) {
  HandSchedule hand;
  const int32_t boundary = hand.AddItem("boundary 1", 0, 256);
  const int32_t host = hand.AddItem("boundary 1 on the host", 0, 256, ItemKind::kRetained, Memory::kHost);
  const int32_t back = hand.AddItem("boundary 1 reloaded", 256, 256);
  const int32_t forward = hand.Compute({{boundary, true}});
  const int32_t offload = hand.Copy(InstructionKind::kOffload, boundary, host, {forward});
  const int32_t reload = hand.Copy(InstructionKind::kReload, host, back, {offload});
  EXPECT_EQ(Check(hand.schedule), absl::OkStatus());
  hand.schedule.instructions[static_cast<size_t>(reload)].waits = {forward};
  ExpectRefused(hand.schedule, {"instruction 2 (reload [reload] waits 0) may start before its own offload",
                                "instruction 1 (offload", "item 1 (boundary 1 on the host)"});
  hand.schedule.instructions[static_cast<size_t>(offload)].to.item = boundary;
  ExpectRefused(hand.schedule, {"instruction 2 (reload", "which no offload writes"});
}

TEST(CheckerTest, WaitsThatCannotBe) {
  TwoGathers ahead;
  ahead.schedule.instructions[1].waits = {2};  // a cycle: 2 waits for 1
  ExpectRefused(ahead.schedule, {"instruction 1 (forward [compute] waits 2) waits for 2, which does not come before"});
  TwoGathers beyond;
  beyond.schedule.instructions[1].waits = {99};
  ExpectRefused(beyond.schedule, {"waits for 99"});
  TwoGathers own;
  own.schedule.instructions[3].waits = {1};
  ExpectRefused(own.schedule, {"instruction 3", "waits for 1", "of its own stream"});
}

TEST(CheckerTest, ItemBeyondTheArena) {
  TwoGathers hand;
  --hand.schedule.device_bytes;
  ExpectRefused(hand.schedule, {"item 1 (h.1 gathered) of 512 bytes at 256 reaches beyond the 767 bytes of device"});
  hand.schedule.items[1].offset = -256;
  ExpectRefused(hand.schedule, {"item 1 (h.1 gathered)", "at -256"});
}

TEST(CheckerTest, UseThatIsNotListed) {
  TwoGathers hand;
  hand.schedule.instructions[3].to = {hand.first, 0, 0};
  ExpectRefused(hand.schedule, {"instruction 3", "writes item 0 (h.0 gathered) and does not list it"});
  hand.schedule.instructions[3].to = {hand.second, 513, 0};
  hand.schedule.instructions[3].accesses = {{hand.second, true}};
  ExpectRefused(hand.schedule, {"instruction 3", "from byte 513 of item 1 (h.1 gathered), which has 512"});
}

TEST(CheckerTest, CollectiveOnAStreamOfOthers) {
  TwoGathers hand;
  hand.schedule.instructions[2].stream = Stream::kReload;
  ExpectRefused(hand.schedule, {"instruction 2 (gather unit 1 [reload]", "stands on a stream of others"});
}

TEST(CheckerTest, RedundantWaitsAreFound) {
  TwoGathers hand;
  hand.schedule.instructions[3].waits = {0, 2};  // 2 stands behind 0 on its stream
  const std::vector<RedundantWait> redundant = RedundantWaits(hand.schedule);
  ASSERT_EQ(redundant.size(), 1U);
  EXPECT_EQ(redundant[0].instruction, 3);
  EXPECT_EQ(redundant[0].wait, 0);
  EXPECT_EQ(Check(hand.schedule), absl::OkStatus());
}

// --- Across ranks
// -----------------------------------------------------------------------------------------------------

std::string AcrossRanks(const Schedule& a, const Schedule& b) {
  return std::string(CheckAcrossRanks({&a, &b}).message());
}

TEST(CheckerTest, RanksWithCollectivesInAnotherOrder) {
  const TwoGathers hand;
  Schedule swapped = hand.schedule;
  std::swap(swapped.instructions[0].unit, swapped.instructions[2].unit);
  EXPECT_THAT(AcrossRanks(hand.schedule, swapped),
              AllOf(HasSubstr("collective 0 of stream gather is instruction 0 (gather unit 0 [gather]) on rank 0"),
                    HasSubstr("instruction 0 (gather unit 1 [gather]) on rank 1")));
  Schedule shorter = hand.schedule;
  shorter.instructions.resize(2);
  EXPECT_THAT(AcrossRanks(hand.schedule, shorter), HasSubstr("nothing on rank 1"));
  Schedule larger = hand.schedule;
  larger.instructions[2].count = 5;
  EXPECT_THAT(AcrossRanks(hand.schedule, larger), HasSubstr("collective 1 of stream gather"));
}

TEST(CheckerTest, SwappedGathersOfACompiledSchedule) {
  const SmallJob job(OptionsOf({"all", true}));
  Schedule swapped = job.schedule();
  std::vector<size_t> gathers;
  for (size_t i = 0; i < swapped.instructions.size(); ++i) {
    if (swapped.instructions[i].kind == InstructionKind::kGather) gathers.push_back(i);
  }
  std::swap(swapped.instructions[gathers[1]].unit, swapped.instructions[gathers[2]].unit);
  EXPECT_THAT(AcrossRanks(job.schedule(), swapped), HasSubstr("collective 1 of stream gather"));
}

// Each rank is right by itself; together, one waits with its gather for the reduction, the other the other way round.
TEST(CheckerTest, RanksThatWaitForEachOther) {
  HandSchedule a;
  const int32_t gather = a.Gather(0, {});
  a.Reduce(0, {}, {gather});
  HandSchedule b;
  const int32_t reduce = b.Reduce(0, {});
  b.Gather(0, {}, {reduce});
  EXPECT_EQ(Check(a.schedule), absl::OkStatus());
  EXPECT_EQ(Check(b.schedule), absl::OkStatus());
  EXPECT_EQ(AcrossRanks(a.schedule, a.schedule), "");
  EXPECT_THAT(AcrossRanks(a.schedule, b.schedule),
              AllOf(HasSubstr("rank 0 at instruction 0 (gather unit 0 [gather]), started"),
                    HasSubstr("rank 0 at instruction 1 (reduce unit 0 [reduce] waits 0)"),
                    HasSubstr("rank 1 at instruction 0 (reduce unit 0 [reduce]), started")));
}

}  // namespace
}  // namespace reprise
