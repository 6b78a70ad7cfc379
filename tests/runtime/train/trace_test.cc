// The trace of a real step, read back as Perfetto reads it.
#include "runtime/train/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/schedule/memory_curve.h"
#include "runtime/schedule/simulation.h"
#include "runtime/train/training_job.h"
#include "tests/tools/memory_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using Json = nlohmann::json;
using ::reprise::testing::MemoryJob;

MemoryJob SmallJob() {
  MemoryJob what;
  what.model = {.vocab_size = 61, .n_positions = 8, .n_embd = 24, .n_layer = 4, .n_head = 3};
  what.ranks = 2;
  what.options.micro_batch = 2;
  what.options.sequence_length = 8;
  what.options.accumulation = 2;
  what.options.checkpoint = "all";
  what.options.offload_activations = true;
  return what;
}

struct Traced {
  Schedule schedule;
  Timeline timeline;
  Json json;
};

// Two steps of the job on ranks that are threads; the trace of rank 0's second.
Traced RunTraced(const MemoryJob& what, const StreamOrder& order) {
  Traced traced;
  testing::RunRanks(what.ranks, [&](Communicator& communicator) {
    auto job = TrainingJob::Create(Gpt2(what.model), what.options, {.stream_order = order}, communicator);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE((*job)->SetParameters(RandomParameters(1)).ok());
    for (int64_t step = 0; step < 2; ++step) {
      const int64_t counted = testing::FillRandomBatch(what, static_cast<uint64_t>(step), **job);
      const auto result = (*job)->Step({.step = step, .learning_rate = 1e-3, .counted_labels = counted});
      ASSERT_TRUE(result.ok()) << result.status();
    }
    if (communicator.rank() != 0) return;
    traced.schedule = (*job)->plan().schedule;
    traced.timeline = (*job)->timeline();
    traced.json = Json::parse(TraceJson((*job)->plan(), (*job)->timeline(), {.step = 2}), nullptr, false);
  });
  return traced;
}

class TraceTest : public ::testing::TestWithParam<bool> {
 protected:
  static const Traced& Trace() {
    static auto* const traces = new std::map<bool, Traced>();
    auto found = traces->find(GetParam());
    if (found == traces->end()) {
      found = traces->emplace(GetParam(), RunTraced(SmallJob(), {.random = GetParam(), .seed = 3})).first;
    }
    return found->second;
  }
  static std::vector<Json> Events(const char* phase) {
    std::vector<Json> events;
    for (const Json& event : Trace().json["traceEvents"]) {
      if (event["ph"] == phase) events.push_back(event);
    }
    return events;
  }
};

// Whole nanoseconds: the file's microseconds have three decimals.
int64_t Nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

TEST_P(TraceTest, IsJsonWithAnEventForEachInstruction) {
  ASSERT_FALSE(Trace().json.is_discarded());
  const std::vector<Json> events = Events("X");
  ASSERT_EQ(events.size(), Trace().schedule.instructions.size());
  std::map<int, std::string> threads;
  for (const Json& event : Events("M")) {
    if (event["name"] == "thread_name") threads[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
  }
  EXPECT_EQ(threads.size(), 5U);
  for (size_t i = 0; i < events.size(); ++i) {
    const Instruction& instruction = Trace().schedule.instructions[i];
    EXPECT_EQ(events[i]["args"]["label"], Trace().schedule.InstructionLabel(static_cast<int32_t>(i)));
    EXPECT_EQ(threads[events[i]["tid"].get<int>()], StreamName(instruction.stream));
    EXPECT_EQ(events[i]["args"].value("waits", Json::array()).size(), instruction.waits.size());
    EXPECT_GT(events[i]["args"]["bytes"].get<int64_t>(), 0);
    if (instruction.kind == InstructionKind::kOffload) {
      EXPECT_EQ(events[i]["args"]["bytes"].get<int64_t>(), 2 * 8 * 24 * 4);
    }
  }
  const auto named = [&](const char* name) {
    return std::count_if(events.begin(), events.end(), [&](const Json& event) { return event["name"] == name; });
  };
  EXPECT_EQ(named("forward layer 2, micro-batch 1"), 1);
  EXPECT_EQ(named("update root"), 1);
  EXPECT_EQ(Trace().json["otherData"]["step"], 2);
}

TEST_P(TraceTest, EventsOfAStreamDoNotOverlapAndFollowTheirWaits) {
  std::map<int, int64_t> free_ns;
  const std::vector<Json> events = Events("X");
  for (size_t i = 0; i < events.size(); ++i) {
    const int64_t start_ns = Nanoseconds(events[i]["ts"]);
    int64_t& free = free_ns[events[i]["tid"].get<int>()];
    EXPECT_GE(start_ns, free) << events[i];
    free = start_ns + Nanoseconds(events[i]["dur"]);
    EXPECT_GE(free, start_ns);
    for (const int32_t wait : Trace().schedule.instructions[i].waits) {
      const Json& waited = events[static_cast<size_t>(wait)];
      EXPECT_LE(Nanoseconds(waited["ts"]) + Nanoseconds(waited["dur"]), start_ns) << waited << events[i];
    }
  }
  EXPECT_GT(free_ns[0], 0);
}

TEST_P(TraceTest, EachWaitIsAnArrow) {
  const std::vector<Json> events = Events("X");
  std::map<int64_t, Json> begins;
  for (const Json& begin : Events("s")) begins[begin["id"].get<int64_t>()] = begin;
  const std::vector<Json> ends = Events("f");
  size_t waits = 0;
  for (const Instruction& instruction : Trace().schedule.instructions) waits += instruction.waits.size();
  EXPECT_GT(waits, 0U);
  EXPECT_EQ(begins.size(), waits);
  ASSERT_EQ(ends.size(), waits);
  for (const Json& end : ends) {
    const Json& begin = begins.at(end["id"].get<int64_t>());
    EXPECT_NE(begin["tid"], end["tid"]);
    EXPECT_LE(begin["ts"].get<double>(), end["ts"].get<double>());
    EXPECT_EQ(end["bp"], "e");
  }
}

// The peak comes from what the calls name, through another program (tests/tools/memory_job.h).
TEST_P(TraceTest, TheCountersMaximumIsThePredictedPeak) {
  int64_t live = 0;
  int64_t highest = 0;
  int64_t kinds = 0;
  int64_t before_ns = -1;
  for (const Json& event : Events("C")) {
    if (event["name"] == "device memory") {
      EXPECT_GT(Nanoseconds(event["ts"]), before_ns);
      before_ns = Nanoseconds(event["ts"]);
      live = std::max(live, event["args"]["live"].get<int64_t>());
      highest = std::max(highest, event["args"]["highest address"].get<int64_t>());
    } else {
      int64_t sum = 0;
      for (const auto& [kind, bytes] : event["args"].items()) sum += bytes.get<int64_t>();
      kinds = std::max(kinds, sum);
    }
  }
  EXPECT_EQ(live, Trace().schedule.largest_live_sum);
  EXPECT_EQ(live, testing::LargestLiveSum(Trace().schedule, testing::AllItems));
  EXPECT_EQ(kinds, live);
  EXPECT_EQ(highest, Trace().schedule.device_bytes);
  EXPECT_EQ(Trace().json["otherData"]["predicted_peak_device_bytes"], highest);
}

TEST_P(TraceTest, TimeByCauseIsTheWholeStep) {
  const Json& other = Trace().json["otherData"];
  int64_t sum = 0;
  for (const auto& [cause, ns] : other["time_by_cause_ns"].items()) {
    EXPECT_GE(ns.get<int64_t>(), 0) << cause;
    sum += ns.get<int64_t>();
  }
  EXPECT_EQ(sum, other["step_ns"].get<int64_t>());
  EXPECT_GT(other["time_by_cause_ns"]["compute"].get<int64_t>(), 0);
  EXPECT_GT(other["time_by_cause_ns"]["recompute"].get<int64_t>(), 0);
  EXPECT_GT(other["time_by_cause_ns"]["optimizer"].get<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Orders, TraceTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) { return info.param ? "random" : "async"; });

TEST(TraceOfASimulation, SaysSo) {
  const MemoryJob what = SmallJob();
  KernelSet kernels({.threads = 1});
  const auto job = MakeJobPlan(Gpt2(what.model), what.options, what.ranks, kernels);
  ASSERT_TRUE(job.ok()) << job.status();
  InstructionTimes times;
  times.ns.assign((*job)->schedule.instructions.size(), 1500);
  const auto simulation = Simulate((*job)->schedule, times, {.ranks = what.ranks});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  const Json json = Json::parse(TraceJson(**job, simulation->timeline, {.source = "simulated"}), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["otherData"]["source"], "simulated");
  EXPECT_EQ(json["otherData"]["step_ns"], simulation->makespan_ns);
}

// Two instructions, four ticks, by hand.
TEST(MemoryCurveTest, FollowsTheTicks) {
  Schedule schedule;
  schedule.items = {{.name = "state", .bytes = 1000, .kind = ItemKind::kState, .first = 0, .last = 4, .offset = 0},
                    {.name = "a", .bytes = 256, .kind = ItemKind::kRetained, .first = 0, .last = 2, .offset = 1024},
                    {.name = "b", .bytes = 512, .kind = ItemKind::kTransient, .first = 1, .last = 1, .offset = 1280}};
  Instruction forward;
  forward.first_tick = 0;
  forward.last_tick = 1;
  Instruction copy;
  copy.stream = Stream::kOffload;
  copy.first_tick = copy.last_tick = 2;
  Instruction next;
  next.first_tick = next.last_tick = 3;
  schedule.instructions = {forward, copy, next};
  const Timeline timeline{.start_ns = {100, 300, 320}, .end_ns = {300, 310, 420}};
  const std::vector<MemoryPoint> curve = MemoryCurve(schedule, timeline);
  ASSERT_EQ(curve.size(), 5U);
  const std::vector<std::vector<int64_t>> expected = {
      {100, 1280, 1280}, {200, 1792, 1792}, {300, 1280, 1280}, {320, 1024, 1024}, {420, 1024, 1024}};
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_THAT((std::vector<int64_t>{curve[i].ns, curve[i].live_bytes(), curve[i].highest_byte}),
                ::testing::ElementsAreArray(expected[i]))
        << i;
  }
  EXPECT_EQ(curve[1].bytes[static_cast<size_t>(ItemKind::kTransient)], 512);
  EXPECT_TRUE(MemoryCurve({}, {}).empty());
}

}  // namespace
}  // namespace reprise
