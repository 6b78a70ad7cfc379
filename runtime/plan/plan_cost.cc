#include "runtime/plan/plan_cost.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "runtime/plan/chain_steps.h"
#include "runtime/plan/interference.h"

namespace reprise {
namespace {

constexpr int64_t kNever = -1;  // ends before anything begins

// The streams of a micro-batch, step by step.
class Clock {
 public:
  Clock(const Profile& profile, const Plan& plan, const ChainSteps& chain)
      : profile_(profile),
        plan_(plan),
        chain_(chain),
        gathered_(chain.first_step_of_slot.size(), kNever),
        offloaded_(chain.segments.size(), kNever),
        reloaded_(chain.segments.size(), kNever),
        gate_(chain.steps.size() + 2, kNever) {}

  // When the last step and the last transfer that counts have ended.
  int64_t Run() {
    for (size_t s = 0; s < chain_.steps.size(); ++s) {
      IssueBefore(static_cast<int64_t>(s));
      RunStep(s);
      IssueAfter(s);
    }
    return std::max(now_, free_[static_cast<size_t>(Stream::kReduce)]);
  }

 private:
  const BlockProfile& block(int64_t index) const { return profile_.blocks[static_cast<size_t>(index)]; }

  // A transfer that may start now, but not before `ready`. Returns its end.
  int64_t Transfer(Stream stream, int64_t duration, int64_t ready = kNever) {
    int64_t& free = free_[static_cast<size_t>(stream)];
    free = std::max({free, now_, ready}) + duration;
    lost_ += LostTo(profile_, stream, duration);
    return free;
  }

  void IssueBefore(int64_t index) {
    const ChainStep& step = chain_.steps[static_cast<size_t>(index)];
    if (profile_.gathers && step.starts_slot) IssueGathers(step.slot);
    if (step.kind == StepKind::kHead && !chain_.segments.empty()) {
      IssueReload(static_cast<int64_t>(chain_.segments.size()) - 1);
    }
    if (step.starts_segment && step.segment > 0) IssueReload(step.segment - 1);
  }

  // Gathers run ahead of the slot that begins by the plan's prefetch; before the first slot, all up to there.
  void IssueGathers(int64_t slot) {
    const auto slots = static_cast<int64_t>(gathered_.size());
    const int64_t last = std::min<int64_t>(slot + plan_.prefetch, slots - 1);
    for (int64_t k = slot == 0 ? 0 : slot + plan_.prefetch; k <= last; ++k) {
      if (HasGather(k)) gathered_[static_cast<size_t>(k)] = Transfer(Stream::kGather, block(BlockOf(k)).gather_ns);
    }
  }

  int64_t BlockOf(int64_t slot) const {
    return chain_.steps[static_cast<size_t>(chain_.first_step_of_slot[static_cast<size_t>(slot)])].block;
  }

  bool HasGather(int64_t slot) const {
    const auto first = static_cast<size_t>(chain_.first_step_of_slot[static_cast<size_t>(slot)]);
    const ChainStep& step = chain_.steps[first];
    if (block(step.block).gather_ns == 0) return false;
    return step.segment < 0 || !plan_.layers[static_cast<size_t>(step.block - 1)].stays_gathered;
  }

  void IssueReload(int64_t segment) {
    const ChainSegment& reloaded = chain_.segments[static_cast<size_t>(segment)];
    if (!reloaded.offloaded) return;
    reloaded_[static_cast<size_t>(segment)] =
        Transfer(Stream::kReload, block(reloaded.first).reload_ns, offloaded_[static_cast<size_t>(segment)]);
  }

  void RunStep(size_t index) {
    const ChainStep& step = chain_.steps[index];
    int64_t start = std::max(now_, gate_[index]);
    if (step.starts_slot) start = std::max(start, gathered_[static_cast<size_t>(step.slot)]);
    if (step.starts_segment) start = std::max(start, reloaded_[static_cast<size_t>(step.segment)]);
    now_ = start + Duration(step) + lost_;
    lost_ = 0;
  }

  int64_t Duration(const ChainStep& step) const {
    switch (step.kind) {
      case StepKind::kForward:
      case StepKind::kHead:
        return block(step.block).forward_ns;
      case StepKind::kRecompute:
        return step.block < chain_.segments[static_cast<size_t>(step.segment)].last
                   ? block(step.block).recompute_through_ns
                   : chain_.options[static_cast<size_t>(step.block)]->recompute_ns;
      case StepKind::kBackward:
        break;
    }
    return block(step.block).backward_ns;
  }

  // Reductions and offloads: the step after next waits for them.
  void IssueAfter(size_t index) {
    const ChainStep& step = chain_.steps[index];
    int64_t& gate = gate_[index + 2];
    const bool made_gradients = step.kind == StepKind::kBackward || step.kind == StepKind::kHead;
    if (profile_.reduces && made_gradients && block(step.block).reduce_ns > 0) {
      gate = std::max(gate, Transfer(Stream::kReduce, block(step.block).reduce_ns));
    }
    if (step.kind == StepKind::kForward && step.block < profile_.layer_count()) {
      gate = std::max(gate, IssueOffload(step.block + 1));
    }
  }

  // Of the boundary before `layer`, if the plan says so. Returns its end.
  int64_t IssueOffload(int64_t layer) {
    const auto index = static_cast<size_t>(chain_.segment_of[static_cast<size_t>(layer)]);
    const ChainSegment& segment = chain_.segments[index];
    if (segment.first != layer || !segment.offloaded) return kNever;
    return offloaded_[index] = Transfer(Stream::kOffload, block(layer).offload_ns);
  }

  const Profile& profile_;
  const Plan& plan_;
  const ChainSteps& chain_;

  int64_t now_ = 0;   // end of the step before
  int64_t lost_ = 0;  // by the next step, to transfers
  std::array<int64_t, kStreamCount> free_ = {};
  std::vector<int64_t> gathered_;   // by slot: end of its gather
  std::vector<int64_t> offloaded_;  // by segment: end of its boundary's offload
  std::vector<int64_t> reloaded_;   // likewise
  std::vector<int64_t> gate_;       // by step: end of the transfers of two steps ago
};

// Bytes of each step: the six sums of docs/plan_profile.md.
class Memory {
 public:
  Memory(const Profile& profile, const Plan& plan, const ChainSteps& chain)
      : profile_(profile), plan_(plan), chain_(chain), begun_(profile.blocks.size(), false) {}

  // To be called for each step in turn.
  int64_t BytesDuring(size_t index) {
    const ChainStep& step = chain_.steps[index];
    if (step.segment >= 0) begun_[static_cast<size_t>(step.block)] = true;
    const int64_t sum = profile_.state_bytes + Retained(step) + Own(step) + Gathered(step) + Reloading(step) +
                        gradients_left_ + gradients_held_;
    gradients_held_ = 0;
    if (step.kind == StepKind::kBackward || step.kind == StepKind::kHead) {
      gradients_held_ = block(step.block).gradient_held_bytes;
      gradients_left_ += block(step.block).gradient_left_bytes;
    }
    return sum;
  }

 private:
  const BlockProfile& block(int64_t index) const { return profile_.blocks[static_cast<size_t>(index)]; }
  const OptionProfile& option(int64_t layer) const { return *chain_.options[static_cast<size_t>(layer)]; }
  bool StaysGathered(int64_t layer) const { return plan_.layers[static_cast<size_t>(layer - 1)].stays_gathered; }
  const ChainSegment& SegmentOf(int64_t layer) const {
    return chain_.segments[static_cast<size_t>(chain_.segment_of[static_cast<size_t>(layer)])];
  }

  int64_t Retained(const ChainStep& step) const {
    const bool in_forward = step.kind == StepKind::kForward;
    const int64_t last = in_forward ? step.block - 1 : profile_.layer_count();
    int64_t sum = 0;
    for (int64_t layer = 1; layer <= last; ++layer) {
      if (step.kind == StepKind::kBackward && step.block == 0) break;
      if (begun_[static_cast<size_t>(layer)]) continue;
      const ChainSegment& segment = SegmentOf(layer);
      sum += option(layer).kept_bytes;
      if (segment.first == layer && segment.boundary_retained && !segment.offloaded) sum += block(layer).boundary_bytes;
      if (StaysGathered(layer)) sum += block(layer).whole_bytes;
    }
    return sum;
  }

  int64_t Own(const ChainStep& step) const {
    if (step.kind == StepKind::kForward) return OwnOfForward(step.block);
    if (step.kind == StepKind::kHead) return block(step.block).forward_bytes;
    if (step.block == 0) return block(0).backward_bytes;
    const ChainSegment& segment = chain_.segments[static_cast<size_t>(step.segment)];
    const bool through = step.kind == StepKind::kRecompute && step.block < segment.last;
    int64_t sum = through                             ? block(step.block).recompute_through_bytes
                  : step.kind == StepKind::kRecompute ? option(step.block).recompute_bytes
                                                      : option(step.block).backward_bytes;
    for (int64_t layer = segment.first; layer < step.block; ++layer) sum += block(layer).remade_bytes;
    return sum;
  }

  int64_t OwnOfForward(int64_t index) const {
    if (index == 0) return block(0).forward_bytes;
    const ChainSegment& segment = SegmentOf(index);
    const bool boundary_lives_on = segment.first == index && segment.boundary_retained;
    return boundary_lives_on ? option(index).forward_bytes : option(index).forward_bytes_dropped;
  }

  // The slot of the step, and those behind it whose gathers have been issued.
  int64_t Gathered(const ChainStep& step) const {
    if (!profile_.gathers || step.slot < 0) return 0;
    const auto slots = static_cast<int64_t>(chain_.first_step_of_slot.size());
    int64_t sum = block(step.block).whole_bytes;
    for (int64_t k = step.slot + 1; k <= std::min<int64_t>(step.slot + plan_.prefetch, slots - 1); ++k) {
      const auto first = static_cast<size_t>(chain_.first_step_of_slot[static_cast<size_t>(k)]);
      const ChainStep& ahead = chain_.steps[first];
      const bool is_there_already = ahead.segment >= 0 && StaysGathered(ahead.block);
      if (!is_there_already) sum += block(ahead.block).whole_bytes;
    }
    return sum;
  }

  // A boundary is on its way while the segment behind its own is at work, or the head.
  int64_t Reloading(const ChainStep& step) const {
    const int64_t behind = step.kind == StepKind::kHead ? static_cast<int64_t>(chain_.segments.size()) : step.segment;
    if (behind < 1) return 0;
    const ChainSegment& segment = chain_.segments[static_cast<size_t>(behind - 1)];
    return segment.offloaded ? block(segment.first).boundary_bytes : 0;
  }

  const Profile& profile_;
  const Plan& plan_;
  const ChainSteps& chain_;
  std::vector<bool> begun_;  // by block: its own recompute or backward
  int64_t gradients_held_ = 0;
  int64_t gradients_left_ = 0;
};

}  // namespace

absl::StatusOr<PlanCost> CostOf(const Profile& profile, const Plan& plan) {
  RETURN_IF_ERROR(CheckProfile(profile));
  ASSIGN_OR_RETURN(const ChainSteps chain, StepsOf(profile, plan));
  PlanCost cost;
  cost.time_ns = profile.accumulation * Clock(profile, plan, chain).Run() + profile.update_ns;
  Memory memory(profile, plan, chain);
  for (size_t s = 0; s < chain.steps.size(); ++s) {
    const int64_t bytes = memory.BytesDuring(s);
    if (bytes <= cost.peak_bytes && s > 0) continue;
    cost.peak_bytes = bytes;
    cost.peak_step = StepName(profile, chain.steps[s]);
  }
  for (const ChainSegment& segment : chain.segments) {
    if (segment.offloaded) cost.host_bytes += profile.blocks[static_cast<size_t>(segment.first)].boundary_bytes;
  }
  return cost;
}

}  // namespace reprise
