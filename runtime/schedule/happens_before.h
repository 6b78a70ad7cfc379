// HappensBefore: which instructions of a schedule are surely over before another one starts, whatever order the
// streams run in: those before it on its own stream, those it waits for, and theirs in turn.
//
//   ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Of(schedule));
//   order(gather, forward);   // O(1)
//
// Vector clocks (Fidge 1988, Mattern 1989), one entry a stream.
#ifndef REPRISE_RUNTIME_SCHEDULE_HAPPENS_BEFORE_H_
#define REPRISE_RUNTIME_SCHEDULE_HAPPENS_BEFORE_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

class HappensBefore {
 public:
  // By stream, the last instruction that is over. -1: none.
  using Clock = std::array<int32_t, kStreamCount>;

  // Internal for a wait that names no earlier instruction of another stream. The schedule must outlive the result.
  static absl::StatusOr<HappensBefore> Of(const Schedule& schedule);

  // Whether `a` is over before `b` starts.
  bool operator()(int32_t a, int32_t b) const { return a < b && clocks_[static_cast<size_t>(b)][StreamOf(a)] >= a; }

  // What is over before `instruction` starts, were it not for its wait number `left_out` (-1: with all of them).
  Clock Before(int32_t instruction, int left_out = -1) const;

 private:
  explicit HappensBefore(const Schedule& schedule) : schedule_(&schedule) {}
  size_t StreamOf(int32_t i) const {
    return static_cast<size_t>(schedule_->instructions[static_cast<size_t>(i)].stream);
  }

  const Schedule* schedule_;
  std::vector<Clock> clocks_;      // by instruction: its own index stands at its own stream
  std::vector<int32_t> previous_;  // on the same stream; -1: none
};

struct RedundantWait {
  int32_t instruction = -1;
  int32_t wait = -1;  // the instruction that it waits for
};

// Waits that stream order and the other waits imply. Of a schedule that HappensBefore::Of accepts.
std::vector<RedundantWait> RedundantWaits(const Schedule& schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_HAPPENS_BEFORE_H_
