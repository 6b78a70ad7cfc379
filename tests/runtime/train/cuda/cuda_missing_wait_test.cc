// A wait that is missing shows on the CUDA device too: its streams are queues of a stand-in, which a seed chooses among
// as far as the events that were asked for allow.
#include <gtest/gtest.h>

#include <iostream>
#include <vector>

#include "tests/tools/cuda/runtime.h"
#include "tests/tools/schedules.h"

namespace reprise {
namespace {

using ::reprise::testing::ResetRuntime;
using ::reprise::testing::RunOutcome;
using ::reprise::testing::ScheduleRunner;
using ::reprise::testing::SmallJob;

constexpr int kRanks = 2;
constexpr uint64_t kSeeds = 20;

JobOptions Offloaded() {
  JobOptions options;
  options.checkpoint = "all";
  options.offload_activations = true;
  return options;
}

RunOutcome RunWithSeed(ScheduleRunner* runner, const Schedule& schedule, uint64_t seed) {
  ResetRuntime({.seed = 100 * seed, .devices = kRanks});  // one each: they meet over NCCL's twin
  return runner->Run(schedule, {});
}

TEST(CudaMissingWait, NineInTenShowAndTheRightScheduleNever) {
  const SmallJob job(Offloaded(), kRanks, "gpt2", "cuda");
  ScheduleRunner runner(job.plan(), kRanks, "cuda");
  const RunOutcome expected = RunWithSeed(&runner, job.schedule(), 0);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_TRUE(RunWithSeed(&runner, job.schedule(), seed) == expected) << "seed " << seed;
  }
  int tried = 0;
  int shown = 0;
  for (size_t i = 0; i < job.schedule().instructions.size(); ++i) {
    for (size_t w = 0; w < job.schedule().instructions[i].waits.size(); ++w) {
      Schedule schedule = job.schedule();
      auto& waits = schedule.instructions[i].waits;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
      ++tried;
      bool shows = false;
      for (uint64_t seed = 1; seed <= kSeeds && !shows; ++seed) {
        shows = !(RunWithSeed(&runner, schedule, seed) == expected);
      }
      if (shows) {
        ++shown;
        continue;
      }
      const int32_t wait = job.schedule().instructions[i].waits[w];
      std::cout << "does not show: " << job.schedule().InstructionText(static_cast<int32_t>(i))
                << " without its wait for " << wait << " (" << job.schedule().InstructionText(wait) << ")\n";
    }
  }
  std::cout << shown << " of " << tried << " missing waits show\n";
  EXPECT_GT(tried, 15);
  EXPECT_GE(shown * 10, tried * 9);
}

}  // namespace
}  // namespace reprise
