// A wait that is missing shows: run all the same, under random orders, a schedule without it gives other bits, a
// poisoned value or an error. The waits that are tried are those that the checker says no schedule can do without
// (checker_test.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "tests/tools/schedules.h"

namespace reprise {
namespace {

using ::reprise::testing::RunOutcome;
using ::reprise::testing::ScheduleRunner;
using ::reprise::testing::SmallJob;

constexpr int kRanks = 2;
constexpr uint64_t kSeeds = 50;

struct WaitPlace {
  size_t instruction = 0;
  size_t wait = 0;
};

std::vector<WaitPlace> WaitsOf(const Schedule& schedule) {
  std::vector<WaitPlace> places;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    for (size_t w = 0; w < schedule.instructions[i].waits.size(); ++w) places.push_back({i, w});
  }
  return places;
}

JobOptions GoldenOptions() {
  JobOptions options;
  options.checkpoint = "all";
  options.offload_activations = true;
  return options;
}

// How many seeds it takes until the schedule without that wait shows; 0: none of kSeeds does.
uint64_t SeedsUntilItShows(const Schedule& right, const WaitPlace& place, const RunOutcome& expected,
                           ScheduleRunner* runner) {
  Schedule schedule = right;
  std::vector<int32_t>& waits = schedule.instructions[place.instruction].waits;
  waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(place.wait));
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!(runner->Run(schedule, {.random = true, .seed = seed}) == expected)) return seed;
  }
  return 0;
}

TEST(MissingWaitTest, NineInTenShow) {
  const SmallJob job(GoldenOptions(), kRanks);
  ScheduleRunner runner(job.plan(), kRanks);
  const RunOutcome expected = runner.Run(job.schedule(), {});
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  const std::vector<WaitPlace> places = WaitsOf(job.schedule());
  int tried = 0;
  int shown = 0;
  uint64_t most_seeds = 0;
  for (size_t p = 0; p < places.size(); ++p, ++tried) {
    const uint64_t seeds = SeedsUntilItShows(job.schedule(), places[p], expected, &runner);
    most_seeds = std::max(most_seeds, seeds);
    if (seeds > 0) {
      ++shown;
      continue;
    }
    const auto instruction = static_cast<int32_t>(places[p].instruction);
    const int32_t wait = job.schedule().instructions[places[p].instruction].waits[places[p].wait];
    std::cout << "does not show: " << job.schedule().InstructionText(instruction) << " without its wait for " << wait
              << " (" << job.schedule().InstructionText(wait) << ")\n";
  }
  std::cout << shown << " of " << tried << " missing waits show, after " << most_seeds << " seeds at most\n";
  EXPECT_GE(shown * 10, tried * 9);
}

TEST(MissingWaitTest, TheRightScheduleGivesTheSameBitsInEveryOrder) {
  const SmallJob job(GoldenOptions(), kRanks);
  ScheduleRunner runner(job.plan(), kRanks);
  const RunOutcome expected = runner.Run(job.schedule(), {});
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RunOutcome outcome = runner.Run(job.schedule(), {.random = true, .seed = seed});
    ASSERT_TRUE(outcome.status.ok()) << "seed " << seed << ": " << outcome.status;
    EXPECT_TRUE(outcome == expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace reprise
