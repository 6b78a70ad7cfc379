// MachineTimes: how fast one machine does what a step is made of. Measured (runtime/train/machine_timing.h) or taken
// from a description of hardware (hardware.h). Plain data; ranks agree on the slowest of all.
//
//   times.kernel_ns.at(spec.ToString());
//   times.transfer[Index(Stream::kOffload)].Nanoseconds(boundary_bytes);
#ifndef REPRISE_RUNTIME_PLAN_MACHINE_TIMES_H_
#define REPRISE_RUNTIME_PLAN_MACHINE_TIMES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/device.h"

namespace reprise {

// latency + bytes * rate, rounded up to whole nanoseconds.
struct TransferTime {
  int64_t latency_ns = 0;
  int64_t picoseconds_per_byte = 0;

  int64_t Nanoseconds(int64_t bytes) const;
};

struct MachineTimes {
  std::map<std::string, int64_t> kernel_ns;  // by KernelSpec::ToString()
  // By stream. Bytes are those of the whole unit for gathers (in the compute type) and reductions (float32), of the
  // boundary for copies. The compute stream has none.
  std::array<TransferTime, kStreamCount> transfer = {};
  // By stream: compute time lost to a transfer, in millionths of the transfer's own time (docs/plan_profile.md).
  std::array<int64_t, kStreamCount> interference_millionths = {};
  int64_t update_picoseconds_per_element = 0;  // of the optimizer, for one element of a shard
  int64_t scalars_ns = 0;                      // sum of the step's scalars over ranks

  // One line a number, "name value", in a fixed order: for ranks to agree and for the cache on disk.
  std::string ToText() const;
  // InvalidArgument that names the line.
  static absl::StatusOr<MachineTimes> FromText(absl::string_view text);
  // Keeps the larger of each number; kernels that only one of both knows are kept.
  void TakeSlower(const MachineTimes& other);
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_MACHINE_TIMES_H_
