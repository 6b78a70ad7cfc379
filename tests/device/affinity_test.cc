#include "device/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <numeric>

namespace reprise {
namespace {

std::vector<int> Cores(int count, int first = 0) {
  std::vector<int> cores(count);
  std::iota(cores.begin(), cores.end(), first);
  return cores;
}

TEST(ShareCores, UnboundRanksShareTheMaskEvenly) {
  const CoreFacts facts{.allowed = Cores(8), .machine_cores = 8};
  EXPECT_EQ(ShareCores(facts, 1).cores, 8);
  EXPECT_EQ(ShareCores(facts, 3).cores, 2);
  EXPECT_EQ(ShareCores(facts, 16).cores, 1);
  EXPECT_EQ(ShareCores(facts, 3).text, "cores 0-7 (2)");
}

TEST(ShareCores, BoundRanksUseTheirMaskAsItIs) {
  EXPECT_EQ(ShareCores({.allowed = Cores(2, 6), .machine_cores = 8, .bound_at_launch = true}, 4).cores, 2);
  EXPECT_EQ(ShareCores({.allowed = Cores(1, 5), .machine_cores = 8, .bound_at_launch = true}, 2).text, "core 5 (1)");
}

TEST(ShareCores, BoundRanksWhoseMasksMustOverlapShareThem) {
  EXPECT_EQ(ShareCores({.allowed = Cores(4), .machine_cores = 8, .bound_at_launch = true}, 4).cores, 2);  // per socket
  EXPECT_EQ(ShareCores({.allowed = Cores(2), .machine_cores = 2, .bound_at_launch = true}, 2).cores, 1);
}

TEST(ShareCores, ControlGroupsLimitTheShare) {
  CoreFacts facts{.allowed = Cores(64), .machine_cores = 64, .quota_cores = 3.5};
  EXPECT_EQ(ShareCores(facts, 1).cores, 4);
  EXPECT_EQ(ShareCores(facts, 2).cores, 2);
  facts.quota_cores = 0.5;
  EXPECT_EQ(ShareCores(facts, 1).cores, 1);
}

TEST(ShareCores, NamesGapsAndUnknownMasks) {
  EXPECT_EQ(ShareCores({.allowed = {0, 1, 2, 8, 10, 11}, .machine_cores = 16}, 1).text, "cores 0-2,8,10-11 (6)");
  EXPECT_EQ(ShareCores({}, 2).text, "core unknown (1)");
}

TEST(CoresForRank, StaysInsideTheMaskOfThisProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_LE(CoresForRank(0, 1).cores, CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(CoresForRank(0, 1).cores, 1);
  EXPECT_EQ(ReadCoreFacts().allowed.size(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(ThreadsWarning, OnlyWhereThreadsExceedTheShare) {
  const CoreShare share{.cores = 2, .text = "cores 0-1 (2)"};
  EXPECT_EQ(ThreadsWarning(2, share), "");
  const std::string warning = ThreadsWarning(3, share);
  EXPECT_NE(warning.find("3 threads"), std::string::npos);
  EXPECT_NE(warning.find("--threads=2"), std::string::npos);
}

}  // namespace
}  // namespace reprise
