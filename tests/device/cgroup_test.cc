#include "device/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/paths.h"

namespace reprise {
namespace {

class Cgroup : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(path)).parent_path());
    std::ofstream(folder_.File(path)) << text;
  }
  CgroupLimits Read(const std::string& membership) {
    Write("membership", membership);
    return ReadCgroupLimits(folder_.File("membership"), folder_.path());
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Cgroup, Version2TakesTheTightestOfTheGroupAndThoseAbove) {
  Write("a/b/memory.max", "max\n");
  Write("a/b/cpu.max", "150000 100000\n");
  Write("a/memory.max", "1000000\n");
  Write("a/memory.current", "700000\n");
  Write("a/memory.stat", "anon 100\ninactive_file 200000\n");
  Write("a/cpu.max", "max 100000\n");
  const CgroupLimits limits = Read("0::/a/b\n");
  EXPECT_EQ(limits.memory_left_bytes, 500000);
  EXPECT_EQ(limits.cores, 1.5);
}

TEST_F(Cgroup, Version1AlsoWhereOnlyTheContainersRootIsMounted) {
  Write("memory/memory.limit_in_bytes", "1000000\n");
  Write("memory/memory.usage_in_bytes", "400000\n");
  Write("cpu/docker/x/cpu.cfs_quota_us", "200000\n");
  Write("cpu/docker/x/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = Read("4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n");
  EXPECT_EQ(limits.memory_left_bytes, 600000);
  EXPECT_EQ(limits.cores, 2.0);
}

TEST_F(Cgroup, NoLimitIsNone) {
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  Write("cpu.max", "garbage");
  const CgroupLimits limits = Read("4:memory:/\n1:cpu:/\n0::/gone\nnonsense\n");
  EXPECT_FALSE(limits.memory_left_bytes.has_value());
  EXPECT_FALSE(limits.cores.has_value());
}

TEST_F(Cgroup, AGroupBeyondItsLimitHasNothingLeft) {
  Write("memory.max", "1000\n");
  Write("memory.current", "5000\n");
  EXPECT_EQ(Read("0::/\n").memory_left_bytes, 0);
}

}  // namespace
}  // namespace reprise
