#include "runtime/schedule/simulation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/virtual_collective.h"
#include "device/virtual_streams.h"
#include "runtime/tensor/philox.h"

namespace reprise {
namespace {

constexpr int64_t kMostNanoseconds = int64_t{1} << 53;  // whole in a double
constexpr int64_t kMillion = 1'000'000;
constexpr double kSmallestUniform = 0x1p-53;

bool IsCollective(InstructionKind kind) {
  return kind == InstructionKind::kGather || kind == InstructionKind::kReduce ||
         kind == InstructionKind::kGatherGradients || kind == InstructionKind::kSumScalars;
}

bool IsTransfer(const Instruction& i) { return i.stream != Stream::kCompute && i.kind != InstructionKind::kSumScalars; }

bool IsBlock(const Instruction& i) {
  return i.kind == InstructionKind::kForward || i.kind == InstructionKind::kHead ||
         i.kind == InstructionKind::kRecompute || i.kind == InstructionKind::kBackward;
}

absl::Status CheckOptions(const SimulationOptions& o) {
  if (o.ranks < 1) return absl::InvalidArgumentError(absl::StrCat("a simulation needs ranks, not ", o.ranks));
  if (!std::isfinite(o.jitter) || o.jitter < 0) {
    return absl::InvalidArgumentError(absl::StrCat("jitter must be a number from 0, and is ", o.jitter));
  }
  if (o.slow_host < 0) return absl::OkStatus();
  if (!std::isfinite(o.slow_factor) || o.slow_factor <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the slow host's factor must be above 0, and is ", o.slow_factor));
  }
  if (o.ranks_per_host < 1 || o.slow_host > (o.ranks - 1) / o.ranks_per_host) {
    return absl::InvalidArgumentError(absl::StrCat("there is no host ", o.slow_host, " with ", o.ranks_per_host,
                                                   " ranks a host and ", o.ranks, " ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const Schedule& schedule, const InstructionTimes& times) {
  if (times.ns.size() != schedule.instructions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are times of ", times.ns.size(), " instructions, and ",
                                                   schedule.instructions.size(), " instructions"));
  }
  for (size_t i = 0; i < times.ns.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (times.ns[i] < 0 || times.ns[i] > kMostNanoseconds) {
      return absl::InvalidArgumentError(absl::StrCat("the time of ", schedule.InstructionLabel(index), " is ",
                                                     times.ns[i], " ns, not from 0 to 2^53"));
    }
    for (const int32_t wait : schedule.instructions[i].waits) {
      if (wait >= 0 && wait < index) continue;
      return absl::InvalidArgumentError(absl::StrCat("instruction ", i, ", ", schedule.InstructionLabel(index),
                                                     ", waits for ", wait, ", which does not stand before it"));
    }
  }
  for (const int64_t factor : times.interference_millionths) {
    if (factor < 0 || factor > kMostNanoseconds) {
      return absl::InvalidArgumentError(absl::StrCat("an interference of ", factor, " millionths makes no sense"));
    }
  }
  return absl::OkStatus();
}

// round_half_up(ns x millionths / 10^6) for numbers up to 2^53.
int64_t Interference(int64_t ns, int64_t millionths) {
  const __int128 lost = (static_cast<__int128>(ns) * millionths + kMillion / 2) / kMillion;
  return static_cast<int64_t>(std::min<__int128>(lost, kMostNanoseconds));
}

// Times with what transfers take from the blocks beside them.
std::vector<int64_t> DisturbedTimes(const Schedule& schedule, const InstructionTimes& times) {
  std::vector<int64_t> ns = times.ns;
  int64_t lost = 0;
  for (size_t i = 0; i < ns.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    if (IsTransfer(instruction)) {
      lost += Interference(ns[i], times.interference_millionths[static_cast<size_t>(instruction.stream)]);
      lost = std::min(lost, kMostNanoseconds);
    }
    if (IsBlock(instruction)) ns[i] += std::exchange(lost, 0);
  }
  return ns;
}

class Simulator {
 public:
  Simulator(const Schedule& schedule, std::vector<int64_t> ns, const SimulationOptions& options)
      : schedule_(schedule),
        ns_(std::move(ns)),
        options_(options),
        ranks_(static_cast<size_t>(options.ranks), VirtualStreams(static_cast<int32_t>(ns_.size()))) {
    for (int rank = 0; rank < options.ranks; ++rank) keys_.push_back(MakeRandomKey(options.seed, rank, 0));
  }

  absl::Status CheckSum() const {
    double sum = 0;
    for (const int64_t ns : ns_) sum += static_cast<double>(ns);
    const double slow = options_.slow_host < 0 ? 1.0 : std::max(1.0, options_.slow_factor);
    if (sum * (1 + options_.jitter) * slow <= static_cast<double>(kMostNanoseconds)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "the instructions' times sum to more than 2^53 ns: look at the times and factors");
  }

  Simulation Run() {
    Simulation result;
    for (size_t i = 0; i < ns_.size(); ++i) {
      const VirtualSpan first = RunInstruction(i);
      result.timeline.start_ns.push_back(first.start_ns);
      result.timeline.end_ns.push_back(first.end_ns);
    }
    for (const VirtualStreams& rank : ranks_) result.rank_ns.push_back(rank.end_ns());
    result.makespan_ns = *std::max_element(result.rank_ns.begin(), result.rank_ns.end());
    result.causes = CausesOf(schedule_, result.timeline);
    return result;
  }

 private:
  // On every rank; rank 0's times.
  VirtualSpan RunInstruction(size_t index) {
    const Instruction& instruction = schedule_.instructions[index];
    for (VirtualStreams& rank : ranks_) {
      for (const int32_t wait : instruction.waits) rank.Wait(instruction.stream, wait);
    }
    VirtualSpan first;
    if (IsCollective(instruction.kind)) {
      int64_t slowest = 0;
      for (size_t r = 0; r < ranks_.size(); ++r) slowest = std::max(slowest, Duration(r, index));
      first = RunVirtualCollective(absl::MakeSpan(ranks_), instruction.stream, slowest);
    } else {
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const VirtualSpan span = ranks_[r].Enqueue(instruction.stream, Duration(r, index));
        if (r == 0) first = span;
      }
    }
    for (VirtualStreams& rank : ranks_) rank.Record(instruction.stream, static_cast<int32_t>(index));
    return first;
  }

  int64_t Duration(size_t rank, size_t instruction) const {
    const int64_t ns = ns_[instruction];
    const bool slow = options_.slow_host >= 0 && static_cast<int>(rank) / options_.ranks_per_host == options_.slow_host;
    if (options_.jitter == 0 && !slow) return ns;
    double factor = slow ? options_.slow_factor : 1.0;
    if (options_.jitter > 0) factor *= 1 + options_.jitter * Uniform(rank, instruction);
    return static_cast<int64_t>(std::floor(static_cast<double>(ns) * factor + 0.5));
  }

  // [0, 1), from the counter alone.
  double Uniform(size_t rank, size_t instruction) const {
    const std::array<uint32_t, 4> bits = RandomBits(keys_[rank], 0, static_cast<int64_t>(instruction));
    const uint64_t word = (static_cast<uint64_t>(bits[1]) << 32) | bits[0];
    return static_cast<double>(word >> 11) * kSmallestUniform;
  }

  const Schedule& schedule_;
  const std::vector<int64_t> ns_;
  const SimulationOptions options_;
  std::vector<VirtualStreams> ranks_;
  std::vector<RandomKey> keys_;  // by rank
};

}  // namespace

absl::StatusOr<Simulation> Simulate(const Schedule& schedule, const InstructionTimes& times,
                                    const SimulationOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckTimes(schedule, times));
  Simulator simulator(schedule, DisturbedTimes(schedule, times), options);
  RETURN_IF_ERROR(simulator.CheckSum());
  return simulator.Run();
}

Schedule WithPlanGates(const Schedule& schedule) {
  Schedule gated = schedule;
  int32_t block = -1;                // the last compute instruction
  std::vector<int32_t> held;         // offloads and reductions issued behind the last block
  std::vector<int32_t> held_before;  // ... and behind the one before it
  for (size_t i = 0; i < gated.instructions.size(); ++i) {
    Instruction& instruction = gated.instructions[i];
    if (IsTransfer(instruction)) {
      if (block >= 0) instruction.waits.push_back(block);
      const bool holds = instruction.stream == Stream::kOffload || instruction.kind == InstructionKind::kReduce;
      if (holds) held.push_back(static_cast<int32_t>(i));
    }
    if (instruction.stream != Stream::kCompute) continue;
    block = static_cast<int32_t>(i);
    if (!IsBlock(instruction)) continue;
    instruction.waits.insert(instruction.waits.end(), held_before.begin(), held_before.end());
    held_before = std::exchange(held, {});
  }
  return gated;
}

}  // namespace reprise
