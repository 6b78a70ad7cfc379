#include "runtime/plan/machine_times.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

MachineTimes Some() {
  MachineTimes times;
  times.kernel_ns = {{"add(f32[2] -> f32[2]) {}", 7}, {"linear", 9}};
  times.transfer[static_cast<size_t>(Stream::kReduce)] = {.latency_ns = 5, .picoseconds_per_byte = 250};
  times.interference_millionths[static_cast<size_t>(Stream::kReload)] = 900'000;
  times.update_picoseconds_per_element = 1234;
  return times;
}

TEST(MachineTimes, TransfersRoundUp) {
  const TransferTime time{.latency_ns = 5, .picoseconds_per_byte = 250};
  EXPECT_EQ(time.Nanoseconds(0), 5);
  EXPECT_EQ(time.Nanoseconds(1), 6);
  EXPECT_EQ(time.Nanoseconds(4), 6);
  EXPECT_EQ(time.Nanoseconds(5), 7);
}

TEST(MachineTimes, TextComesBackEqual) {
  const MachineTimes times = Some();
  const auto again = MachineTimes::FromText(times.ToText());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToText(), times.ToText());
  EXPECT_EQ(again->kernel_ns, times.kernel_ns);
  EXPECT_EQ(again->transfer[static_cast<size_t>(Stream::kReduce)].picoseconds_per_byte, 250);
}

TEST(MachineTimes, RefusesOtherText) {
  for (const char* text : {"speed 3\n", "scalars_ns\n", "scalars_ns -1\n", "scalars_ns x\n", "kernel 7\n",
                           "kernel x add\n", "scalars_ns 99999999999999999999\n"}) {
    EXPECT_EQ(MachineTimes::FromText(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(MachineTimes, TheSlowerOfTwo) {
  MachineTimes times = Some();
  MachineTimes other;
  other.kernel_ns = {{"linear", 3}, {"new", 4}};
  other.update_picoseconds_per_element = 2000;
  times.TakeSlower(other);
  EXPECT_EQ(times.kernel_ns.at("linear"), 9);
  EXPECT_EQ(times.kernel_ns.at("new"), 4);
  EXPECT_EQ(times.update_picoseconds_per_element, 2000);
  EXPECT_EQ(times.transfer[static_cast<size_t>(Stream::kReduce)].latency_ns, 5);
}

}  // namespace
}  // namespace reprise
