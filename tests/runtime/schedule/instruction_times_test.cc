#include "runtime/schedule/instruction_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/schedule/hand_schedule.h"

namespace reprise {
namespace {

using ::reprise::testing::HandSchedule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

KernelSpec Spec(const std::string& operation) {
  return {operation, {{DType::kFloat32, {4}}}, {{DType::kFloat32, {4}}}, {}};
}

// Every kind of instruction once; sizes differ, so that no function can stand for another.
HandSchedule OneOfEach() {
  HandSchedule hand;
  const int32_t whole = hand.AddItem("whole", 0, 4096);
  const int32_t gradients = hand.AddItem("gradients", 4096, 8192);
  const int32_t host = hand.AddItem("host", 0, 512, ItemKind::kRetained, Memory::kHost);
  hand.schedule.kernels = {Spec("gelu"), Spec("layer_norm")};
  hand.Gather(0, {{whole, true}});
  hand.schedule.instructions.back().to.item = whole;
  hand.Compute({{whole, false}}, {0});
  for (const int32_t kernel : {0, 1, 0}) {
    Call call;
    call.kernel = kernel;
    hand.schedule.instructions.back().calls.push_back(call);
  }
  hand.Copy(InstructionKind::kOffload, whole, host);
  hand.schedule.instructions.back().count = 512;
  hand.Copy(InstructionKind::kReload, host, whole);
  hand.schedule.instructions.back().count = 256;
  hand.Reduce(0, {{gradients, false}});
  hand.schedule.instructions.back().from.item = gradients;
  hand.Add(InstructionKind::kSumScalars, Stream::kReduce, {});
  hand.Add(InstructionKind::kFinish, Stream::kCompute, {});
  hand.Add(InstructionKind::kUpdate, Stream::kCompute, {});
  hand.schedule.instructions.back().count = 1000;
  return hand;
}

TimeTable Table() {
  TimeTable table;
  table.kernel_ns = {{Spec("gelu").ToString(), 10}, {Spec("layer_norm").ToString(), 300}};
  table.gather_ns = [](int64_t bytes) { return bytes + 1; };
  table.reduce_ns = [](int64_t bytes) { return bytes + 2; };
  table.offload_ns = [](int64_t bytes) { return bytes + 3; };
  table.reload_ns = [](int64_t bytes) { return bytes + 4; };
  table.update_ns = [](int64_t elements) { return elements + 5; };
  table.sum_scalars_ns = 6;
  table.finish_ns = 7;
  table.interference_millionths = {0, 1, 2, 3, 4};
  return table;
}

TEST(InstructionTimesTest, EachInstructionIsPricedByWhatItIs) {
  const auto times = TimesFromTable(OneOfEach().schedule, Table());
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(times->ns, ElementsAre(4097, 320, 515, 260, 8194, 6, 7, 1005));
  EXPECT_THAT(times->interference_millionths, ElementsAre(0, 1, 2, 3, 4));
}

TEST(InstructionTimesTest, WhatIsNotSetTakesNoTime) {
  TimeTable table;
  table.kernel_ns = Table().kernel_ns;
  const auto times = TimesFromTable(OneOfEach().schedule, table);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(times->ns, ElementsAre(0, 320, 0, 0, 0, 0, 0, 0));
}

TEST(InstructionTimesTest, AMissingKernelIsNamed) {
  TimeTable table = Table();
  table.kernel_ns.erase(Spec("layer_norm").ToString());
  const auto times = TimesFromTable(OneOfEach().schedule, table);
  EXPECT_EQ(times.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(times.status().message()), HasSubstr("layer_norm"));
}

}  // namespace
}  // namespace reprise
