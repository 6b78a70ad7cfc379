#include "runtime/schedule/happens_before.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace reprise {
namespace {

constexpr HappensBefore::Clock kNothing = {-1, -1, -1, -1, -1};

void Join(const HappensBefore::Clock& other, HappensBefore::Clock* clock) {
  for (size_t s = 0; s < clock->size(); ++s) (*clock)[s] = std::max((*clock)[s], other[s]);
}

absl::Status CheckWait(const Schedule& schedule, int32_t instruction, int32_t wait) {
  if (wait < 0 || wait >= instruction) {
    return absl::InternalError(absl::StrCat("instruction ", instruction, " (", schedule.InstructionText(instruction),
                                            ") waits for ", wait, ", which does not come before it"));
  }
  const auto stream = [&](int32_t i) { return schedule.instructions[static_cast<size_t>(i)].stream; };
  if (stream(wait) == stream(instruction)) {
    return absl::InternalError(absl::StrCat("instruction ", instruction, " (", schedule.InstructionText(instruction),
                                            ") waits for ", wait, " (", schedule.InstructionText(wait),
                                            ") of its own stream"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HappensBefore> HappensBefore::Of(const Schedule& schedule) {
  HappensBefore order(schedule);
  Clock last = kNothing;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    for (const int32_t wait : schedule.instructions[i].waits) {
      if (absl::Status status = CheckWait(schedule, index, wait); !status.ok()) return status;
    }
    const size_t stream = order.StreamOf(index);
    order.previous_.push_back(last[stream]);
    Clock clock = order.Before(index);
    clock[stream] = index;
    last[stream] = index;
    order.clocks_.push_back(clock);
  }
  return order;
}

HappensBefore::Clock HappensBefore::Before(int32_t instruction, int left_out) const {
  const auto i = static_cast<size_t>(instruction);
  Clock clock = previous_[i] < 0 ? kNothing : clocks_[static_cast<size_t>(previous_[i])];
  const std::vector<int32_t>& waits = schedule_->instructions[i].waits;
  for (size_t w = 0; w < waits.size(); ++w) {
    if (static_cast<int>(w) != left_out) Join(clocks_[static_cast<size_t>(waits[w])], &clock);
  }
  return clock;
}

std::vector<RedundantWait> RedundantWaits(const Schedule& schedule) {
  const absl::StatusOr<HappensBefore> order = HappensBefore::Of(schedule);
  REPRISE_CHECK(order.ok()) << order.status().message();
  std::vector<RedundantWait> redundant;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const std::vector<int32_t>& waits = schedule.instructions[i].waits;
    for (size_t w = 0; w < waits.size(); ++w) {
      const HappensBefore::Clock clock = order->Before(static_cast<int32_t>(i), static_cast<int>(w));
      const auto stream = static_cast<size_t>(schedule.instructions[static_cast<size_t>(waits[w])].stream);
      if (clock[stream] >= waits[w]) redundant.push_back({static_cast<int32_t>(i), waits[w]});
    }
  }
  return redundant;
}

}  // namespace reprise
