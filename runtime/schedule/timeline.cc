#include "runtime/schedule/timeline.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise {
namespace {

TimeCause CauseOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kForward:
    case InstructionKind::kHead:
    case InstructionKind::kBackward:
      return TimeCause::kCompute;
    case InstructionKind::kRecompute:
      return TimeCause::kRecompute;
    case InstructionKind::kGather:
    case InstructionKind::kGatherGradients:
      return TimeCause::kGather;
    case InstructionKind::kReduce:
      return TimeCause::kReduce;
    case InstructionKind::kOffload:
      return TimeCause::kOffload;
    case InstructionKind::kReload:
      return TimeCause::kReload;
    case InstructionKind::kNorm:
    case InstructionKind::kSumScalars:
    case InstructionKind::kFinish:
    case InstructionKind::kUpdate:
      return TimeCause::kOptimizer;
  }
  return TimeCause::kOther;
}

// Walks along the compute stream and says of each stretch of time what it went to.
class Attribution {
 public:
  explicit Attribution(const Schedule& schedule, const Timeline& timeline) : schedule_(schedule), timeline_(timeline) {}

  TimeByCause Run() {
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      const Instruction& instruction = schedule_.instructions[i];
      if (instruction.stream != Stream::kCompute) continue;
      for (const int32_t wait : instruction.waits) Advance(static_cast<size_t>(wait), timeline_.start_ns[i]);
      AdvanceTo(timeline_.start_ns[i], TimeCause::kOther);
      Advance(i, timeline_.end_ns[i]);
    }
    AddRest();
    return by_cause_;
  }

 private:
  void AdvanceTo(int64_t ns, TimeCause cause) {
    if (ns <= now_ns_) return;
    by_cause_.ns[static_cast<size_t>(cause)] += ns - now_ns_;
    now_ns_ = ns;
  }

  void Advance(size_t instruction, int64_t limit_ns) {
    AdvanceTo(std::min(timeline_.end_ns[instruction], limit_ns), CauseOf(schedule_.instructions[instruction].kind));
  }

  // What ends behind the last compute instruction.
  void AddRest() {
    std::vector<std::pair<int64_t, size_t>> rest;
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      if (timeline_.end_ns[i] > now_ns_) rest.emplace_back(timeline_.end_ns[i], i);
    }
    std::sort(rest.begin(), rest.end());
    for (const auto& [end_ns, i] : rest) Advance(i, end_ns);
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  int64_t now_ns_ = 0;
  TimeByCause by_cause_;
};

}  // namespace

int64_t Timeline::StepNanoseconds() const {
  return end_ns.empty() ? 0 : *std::max_element(end_ns.begin(), end_ns.end());
}

const char* TimeCauseName(TimeCause cause) {
  static constexpr const char* kNames[kTimeCauseCount] = {
      "compute",         "recompute",      "exposed gather", "exposed reduce",
      "exposed offload", "exposed reload", "optimizer",      "other"};
  return kNames[static_cast<size_t>(cause)];
}

int64_t TimeByCause::total() const { return std::accumulate(ns.begin(), ns.end(), int64_t{0}); }

TimeByCause CausesOf(const Schedule& schedule, const Timeline& timeline) {
  return Attribution(schedule, timeline).Run();
}

}  // namespace reprise
