#include "launch/machine_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/plan/hardware.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

class MachineChoice : public ::testing::Test {
 protected:
  MachineChoice() {
    configuration_.model_config = "n_layer=2,n_embd=16,n_head=2,vocab_size=64,n_positions=16";
    configuration_.micro_batch = {.sequences = 2};
    configuration_.profile_cache = folder_.File("cache");
  }

  absl::StatusOr<std::shared_ptr<const MachineTimes>> Times(const std::string& hardware, int ranks) {
    PlanRequest request;
    request.hardware = hardware;
    auto setup = MakeJobSetup(PosixStorage(), configuration_);
    if (!setup.ok()) return setup.status();
    KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
    return TimesForPlan(configuration_, request, *setup, ranks, {.threads = 1}, kernels);
  }

  testing::TemporaryFolder folder_;
  TrainConfiguration configuration_;
};

TEST_F(MachineChoice, TheCacheIsWhereTheFlagOrTheDesktopStandardSays) {
  EXPECT_EQ(CacheFolder("none"), "");
  EXPECT_EQ(CacheFolder("/there"), "/there");
  ::setenv("XDG_CACHE_HOME", "/standard", 1);
  EXPECT_EQ(CacheFolder("auto"), "/standard/reprise");
  ::setenv("XDG_CACHE_HOME", "", 1);
  ::setenv("HOME", "/me", 1);
  EXPECT_EQ(CacheFolder("auto"), "/me/.cache/reprise");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(CacheFolder("auto"), "");
}

// From its rates alone: the same numbers each time, others for another machine, and nothing is measured.
TEST_F(MachineChoice, ADescribedMachineIsCalculated) {
  const auto once = Times("a100-sxm", 2);
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ((*once)->ToText(), (*Times("a100-sxm", 2))->ToText());
  EXPECT_NE((*once)->ToText(), (*Times("h100-sxm", 2))->ToText());
  EXPECT_GT((*once)->transfer[static_cast<size_t>(Stream::kGather)].Nanoseconds(1 << 20), 0);
  EXPECT_FALSE(PosixStorage().Exists(folder_.File("cache")));
  const absl::Status unknown = Times("abacus", 2).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("a100-sxm"));
}

// One process cannot measure what passes between ranks: it stands at the rate of a copy.
TEST_F(MachineChoice, OfThisMachineCollectivesRunAtTheRateOfACopy) {
  const auto times = Times("", 4);
  ASSERT_TRUE(times.ok()) << times.status();
  const auto rate = [&](Stream stream) {
    return (*times)->transfer[static_cast<size_t>(stream)].Nanoseconds(64 << 20);
  };
  EXPECT_GT(rate(Stream::kReload), 0);
  EXPECT_EQ(rate(Stream::kGather), rate(Stream::kReload));
  EXPECT_EQ(rate(Stream::kReduce), rate(Stream::kReload));
  EXPECT_TRUE(PosixStorage().Exists(folder_.File("cache"))) << "what was measured is kept";
}

}  // namespace
}  // namespace reprise
