#include "tests/tools/memory_job.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "runtime/plan/layout.h"

namespace reprise::testing {
namespace {

int64_t Draw(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::string RandomPolicy(std::mt19937_64& random) {
  switch (Draw(random, 0, 3)) {
    case 0:
      return "none";
    case 1:
      return "all";
    case 2:
      return "sqrt";
    default:
      return absl::StrCat("every:", Draw(random, 1, 5));
  }
}

// By item, the ticks between which something names it; -1 where nothing does.
class Lifetimes {
 public:
  explicit Lifetimes(const Schedule& schedule)
      : schedule_(schedule), first_(schedule.items.size(), -1), last_(schedule.items.size(), -1) {
    for (const Instruction& instruction : schedule.instructions) Walk(instruction);
    KeepGradients();
  }

  int64_t ticks() const { return tick_; }
  int64_t first(size_t item) const { return schedule_.items[item].persistent() ? 0 : first_[item]; }
  int64_t last(size_t item) const { return schedule_.items[item].persistent() ? tick_ - 1 : last_[item]; }

 private:
  void Name(int32_t item) {
    if (item < 0) return;
    const auto i = static_cast<size_t>(item);
    if (first_[i] < 0) first_[i] = tick_;
    last_[i] = std::max(last_[i], tick_);
  }

  void Walk(const Instruction& instruction) {
    for (const Call& call : instruction.calls) {
      for (const Operand& input : call.inputs) Name(input.item);
      for (const Operand& output : call.outputs) Name(output.item);
      Name(call.scratch.item);
      ++tick_;
    }
    if (instruction.calls.empty()) {
      for (const Access& access : instruction.accesses) Name(access.item);
      ++tick_;
    }
    // What a copy or a reduction reads is still read while the next block runs.
    if (instruction.kind == InstructionKind::kOffload || instruction.kind == InstructionKind::kReduce) {
      in_flight_.push_back(instruction.from.item);
    } else if (instruction.block >= 0 && instruction.stream == Stream::kCompute) {
      --tick_;
      for (const int32_t item : in_flight_) Name(item);
      ++tick_;
      in_flight_.clear();
    }
  }

  // Summed gradients can be read after the step.
  void KeepGradients() {
    for (const Instruction& instruction : schedule_.instructions) {
      if (instruction.kind != InstructionKind::kUpdate) continue;
      last_[static_cast<size_t>(instruction.from.item)] = tick_;
    }
    ++tick_;
  }

  const Schedule& schedule_;
  std::vector<int64_t> first_, last_;
  std::vector<int32_t> in_flight_;
  int64_t tick_ = 0;
};

}  // namespace

std::string MemoryJob::ToString() const {
  return absl::StrCat("layers ", model.n_layer, " width ", model.n_embd, " heads ", model.n_head, " vocabulary ",
                      model.vocab_size, " dropout ", model.dropout, " B ", options.micro_batch, " T ",
                      options.sequence_length, " accumulation ", options.accumulation, " ", DTypeName(options.dtype),
                      " ", ShardingName(options.sharding), " ", options.checkpoint, " offload ",
                      options.offload_activations, " host budget ", options.host_budget_bytes, " prefetch ",
                      options.prefetch, " states ", options.optimizer.states(), " R ", ranks);
}

MemoryJob RandomMemoryJob(std::mt19937_64& random) {
  MemoryJob job;
  job.model.n_layer = Draw(random, 1, 8);
  job.model.n_head = Draw(random, 1, 4);
  job.model.n_embd = job.model.n_head * Draw(random, 1, 13);
  job.model.vocab_size = Draw(random, 2, 300);
  job.model.dropout = Draw(random, 0, 1) == 0 ? 0 : 0.1;
  JobOptions& o = job.options;
  o.sequence_length = Draw(random, 1, 33);
  job.model.n_positions = o.sequence_length + Draw(random, 0, 3);
  o.micro_batch = Draw(random, 1, 3);
  o.accumulation = static_cast<int>(Draw(random, 1, 3));
  o.dtype = Draw(random, 0, 1) == 0 ? DType::kFloat32 : DType::kBFloat16;
  o.sharding = static_cast<Sharding>(Draw(random, 0, 3));
  o.checkpoint = RandomPolicy(random);
  o.offload_activations = o.checkpoint != "none" && Draw(random, 0, 1) == 0;
  o.prefetch = static_cast<int>(Draw(random, 0, 3));
  o.optimizer.kind = Draw(random, 0, 2) == 0 ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  job.ranks = static_cast<int>(Draw(random, 1, 3));
  if (o.offload_activations && Draw(random, 0, 1) == 0) {
    const int64_t boundary = o.micro_batch * o.sequence_length * job.model.n_embd * SizeOf(o.dtype);
    o.host_budget_bytes = RoundUp(boundary, kItemAlignment) * Draw(random, 1, 4) + Draw(random, 0, 255);
  }
  return job;
}

MemoryJob Gpt2SmallJob(const std::string& checkpoint, Sharding sharding, int ranks) {
  MemoryJob job;
  job.options.micro_batch = 4;
  job.options.sequence_length = 256;
  job.options.checkpoint = checkpoint;
  job.options.sharding = sharding;
  job.ranks = ranks;
  return job;
}

int64_t FillRandomBatch(const MemoryJob& what, uint64_t seed, TrainingJob& job) {
  std::mt19937_64 random(seed);
  int64_t counted = 0;
  for (int m = 0; m < what.options.accumulation; ++m) {
    for (int32_t& token : job.tokens(m)) token = static_cast<int32_t>(Draw(random, 0, what.model.vocab_size - 1));
    for (int32_t& label : job.labels(m)) {
      label = static_cast<int32_t>(Draw(random, -1, what.model.vocab_size - 1));
      if (label < 0) label = -100;
      if (label >= 0) ++counted;
    }
  }
  return counted;
}

bool AllItems(const Item& /*item*/) { return true; }

bool ActivationItems(const Item& item) {
  return item.kind == ItemKind::kRetained || item.kind == ItemKind::kTransient || item.kind == ItemKind::kScratch;
}

int64_t LargestLiveSum(const Schedule& schedule, const ItemFilter& filter) {
  const Lifetimes lifetimes(schedule);
  std::vector<int64_t> change(static_cast<size_t>(lifetimes.ticks()) + 1, 0);
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    const Item& item = schedule.items[i];
    if (item.memory != Memory::kDevice || lifetimes.first(i) < 0 || !filter(item)) continue;
    const int64_t bytes = RoundUp(item.bytes, kItemAlignment);
    change[static_cast<size_t>(lifetimes.first(i))] += bytes;
    change[static_cast<size_t>(lifetimes.last(i)) + 1] -= bytes;
  }
  int64_t live = 0;
  int64_t largest = 0;
  for (const int64_t bytes : change) largest = std::max(largest, live += bytes);
  return largest;
}

int64_t ArenaBound(int64_t live_sum) {
  constexpr int64_t kSmall = int64_t{256} << 20;
  return live_sum < kSmall ? live_sum + live_sum / 10 : live_sum + live_sum / 50;
}

}  // namespace reprise::testing
