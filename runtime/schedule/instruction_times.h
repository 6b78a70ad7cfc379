// How long each instruction of a schedule takes: what a simulation runs on, made from a table of measured or estimated
// times.
//
//   TimeTable table;
//   table.kernel_ns[spec.ToString()] = 12'000;
//   table.gather_ns = [](int64_t bytes) { return 20'000 + bytes / 5; };   // 5 GB/s, and 20 us to begin
//   ASSIGN_OR_RETURN(InstructionTimes times, TimesFromTable(schedule, table));
//
// Plain data.
#ifndef REPRISE_RUNTIME_SCHEDULE_INSTRUCTION_TIMES_H_
#define REPRISE_RUNTIME_SCHEDULE_INSTRUCTION_TIMES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

struct InstructionTimes {
  std::vector<int64_t> ns;  // by instruction, undisturbed
  // By stream: a transfer of t ns on it lengthens the next instruction of a block in the list by
  // round_half_up(t x this / 10^6), because streams share cores (docs/plan_profile.md).
  std::array<int64_t, kStreamCount> interference_millionths{};
};

struct TimeTable {
  using OfSize = std::function<int64_t(int64_t size)>;

  std::map<std::string, int64_t> kernel_ns;  // by KernelSpec::ToString; the calls of an instruction add up
  // Nanoseconds of one transfer or update; what is not set takes no time.
  OfSize gather_ns = nullptr;   // of the bytes of a whole unit; also of its gradients under sharding `none`
  OfSize reduce_ns = nullptr;   // of the bytes of a unit's whole gradients
  OfSize offload_ns = nullptr;  // of bytes copied
  OfSize reload_ns = nullptr;   // of bytes copied
  OfSize update_ns = nullptr;   // of updated elements
  int64_t sum_scalars_ns = 0;
  int64_t finish_ns = 0;
  std::array<int64_t, kStreamCount> interference_millionths{};
};

// InvalidArgument where the table lacks a kernel of the schedule (named).
absl::StatusOr<InstructionTimes> TimesFromTable(const Schedule& schedule, const TimeTable& table);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_INSTRUCTION_TIMES_H_
