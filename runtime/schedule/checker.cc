#include "runtime/schedule/checker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "runtime/schedule/check_text.h"
#include "runtime/schedule/memory_check.h"

namespace reprise {
namespace {

constexpr int64_t kFloatBytes = 4;

// One use of an item by an instruction, in the order in which the instruction makes them.
struct Use {
  Operand operand;
  int64_t bytes = 0;  // 0: not known here
  bool reads = false;
  bool writes = false;
  int64_t tick = 0;
};

void AppendCallUses(const Schedule& schedule, const Instruction& instruction, std::vector<Use>* uses) {
  for (size_t c = 0; c < instruction.calls.size(); ++c) {
    const Call& call = instruction.calls[c];
    const KernelSpec& spec = schedule.kernels[static_cast<size_t>(call.kernel)];
    const int64_t tick = instruction.first_tick + static_cast<int64_t>(c);
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      uses->push_back({call.inputs[k], spec.inputs[k].bytes(), true, false, tick});
    }
    uses->push_back({call.scratch, 0, false, true, tick});
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      const bool adds = (call.accumulate >> k & 1U) != 0;
      uses->push_back({call.outputs[k], spec.outputs[k].bytes(), adds, true, tick});
    }
  }
}

std::vector<Use> UsesOf(const Schedule& schedule, const Instruction& instruction) {
  const int64_t tick = instruction.first_tick;
  std::vector<Use> uses;
  AppendCallUses(schedule, instruction, &uses);
  const bool copies = instruction.kind == InstructionKind::kOffload || instruction.kind == InstructionKind::kReload;
  const bool reduces = instruction.kind == InstructionKind::kReduce;
  const bool updates = instruction.kind == InstructionKind::kUpdate;
  const int64_t bytes = copies ? instruction.count : reduces || updates ? instruction.count * kFloatBytes : 0;
  uses.push_back({instruction.from, bytes, true, false, tick});
  uses.push_back({instruction.to, bytes, instruction.accumulate || updates, true, tick});
  if (updates && instruction.unit >= 0) {
    for (const Operand& moment : schedule.unit_states[static_cast<size_t>(instruction.unit)].moments) {
      uses.push_back({moment, bytes, true, true, tick});
    }
  }
  const auto none = [](const Use& use) { return use.operand.item < 0; };
  uses.erase(std::remove_if(uses.begin(), uses.end(), none), uses.end());
  return uses;
}

// What the instruction at hand lists. Some list an item of every unit, so that nobody goes through lists.
class Listed {
 public:
  explicit Listed(size_t items) : entries_(items) {}

  void Add(int32_t instruction, const Access& access) {
    Entry& entry = entries_[static_cast<size_t>(access.item)];
    if (entry.instruction != instruction) entry = {instruction, access.write};  // the first counts
  }

  bool Holds(int32_t instruction, int32_t item, bool write) const {
    if (static_cast<size_t>(item) >= entries_.size()) return false;
    const Entry& entry = entries_[static_cast<size_t>(item)];
    return entry.instruction == instruction && (entry.write || !write);
  }

 private:
  struct Entry {
    int32_t instruction = -1;
    bool write = false;
  };
  std::vector<Entry> entries_;  // by item
};

class Checker {
 public:
  Checker(const Schedule& schedule, const HappensBefore& order) : schedule_(schedule), order_(order) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckIndices());
    RETURN_IF_ERROR(CheckStreams());
    RETURN_IF_ERROR(CheckReloads());
    RETURN_IF_ERROR(CheckUses());
    RETURN_IF_ERROR(CheckAccessOrder());
    return CheckMemory(schedule_, order_);
  }

 private:
  const Instruction& instruction(int32_t i) const { return schedule_.instructions[static_cast<size_t>(i)]; }
  int32_t count() const { return static_cast<int32_t>(schedule_.instructions.size()); }
  std::string Name(int32_t i) const { return NameInstruction(schedule_, i); }

  absl::Status CheckIndices() const {
    const auto items = static_cast<int32_t>(schedule_.items.size());
    for (int32_t i = 0; i < count(); ++i) {
      for (const Access& access : instruction(i).accesses) {
        if (access.item >= 0 && access.item < items) continue;
        return absl::InternalError(absl::StrCat(Name(i), " uses item ", access.item, " of ", items));
      }
    }
    return absl::OkStatus();
  }

  // Collectives of one sequence are started from one stream, and ticks follow the list.
  absl::Status CheckStreams() const {
    int64_t next_tick = 0;
    for (int32_t i = 0; i < count(); ++i) {
      const Instruction& in = instruction(i);
      const bool gathers = in.kind == InstructionKind::kGather || in.kind == InstructionKind::kGatherGradients;
      const bool reduces = in.kind == InstructionKind::kReduce || in.kind == InstructionKind::kSumScalars;
      if (gathers != (in.stream == Stream::kGather) || reduces != (in.stream == Stream::kReduce)) {
        return absl::InternalError(absl::StrCat(Name(i), " stands on a stream of others"));
      }
      const int64_t ticks = std::max<int64_t>(1, static_cast<int64_t>(in.calls.size()));
      if (in.first_tick < next_tick || in.last_tick != in.first_tick + ticks - 1) {
        return absl::InternalError(absl::StrCat(Name(i), " has ticks ", in.first_tick, " to ", in.last_tick, ", not ",
                                                ticks, " from ", next_tick, " on"));
      }
      next_tick = in.last_tick + 1;
    }
    return absl::OkStatus();
  }

  absl::Status CheckReloads() const {
    std::vector<int32_t> offload_of(schedule_.items.size(), -1);
    for (int32_t i = 0; i < count(); ++i) {
      if (instruction(i).kind == InstructionKind::kOffload) {
        offload_of[static_cast<size_t>(instruction(i).to.item)] = i;
      }
    }
    for (int32_t i = 0; i < count(); ++i) {
      if (instruction(i).kind != InstructionKind::kReload) continue;
      const int32_t item = instruction(i).from.item;
      const int32_t offload = offload_of[static_cast<size_t>(item)];
      if (offload < 0) {
        return absl::InternalError(
            absl::StrCat(Name(i), " reads ", NameItem(schedule_, item), ", which no offload writes"));
      }
      if (!order_(offload, i)) {
        return absl::InternalError(absl::StrCat(Name(i), " may start before its own offload, ", Name(offload), ", of ",
                                                NameItem(schedule_, item), " is over"));
      }
    }
    return absl::OkStatus();
  }

  // Each use is listed, within its item and lifetime, and after a write.
  absl::Status CheckUses() const {
    std::vector<bool> written(schedule_.items.size(), false);
    Listed listed(schedule_.items.size());
    for (int32_t i = 0; i < count(); ++i) {
      const std::vector<Use> uses = UsesOf(schedule_, instruction(i));
      for (const Access& access : instruction(i).accesses) listed.Add(i, access);
      for (const Use& use : uses) {
        RETURN_IF_ERROR(CheckListed(i, use, listed));
        RETURN_IF_ERROR(CheckLive(i, use.operand.item, use.tick));
        if (use.reads) RETURN_IF_ERROR(CheckWritten(i, use.operand.item, written));
        if (use.writes) written[static_cast<size_t>(use.operand.item)] = true;
      }
      for (const Access& access : instruction(i).accesses) {
        if (instruction(i).calls.empty()) RETURN_IF_ERROR(CheckLive(i, access.item, instruction(i).first_tick));
        if (!access.write) RETURN_IF_ERROR(CheckWritten(i, access.item, written));
        if (access.write) written[static_cast<size_t>(access.item)] = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckListed(int32_t i, const Use& use, const Listed& listed) const {
    const int32_t item = use.operand.item;
    if (!listed.Holds(i, item, use.writes)) {
      return absl::InternalError(absl::StrCat(Name(i), use.writes ? " writes " : " reads ", NameItem(schedule_, item),
                                              " and does not list it"));
    }
    const int64_t bytes = schedule_.items[static_cast<size_t>(item)].bytes;
    if (use.operand.offset < 0 || use.bytes > bytes || use.operand.offset > bytes - use.bytes) {
      return absl::InternalError(absl::StrCat(Name(i), " uses ", use.bytes, " bytes from byte ", use.operand.offset,
                                              " of ", NameItem(schedule_, item), ", which has ", bytes));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLive(int32_t i, int32_t item, int64_t tick) const {
    const Item& it = schedule_.items[static_cast<size_t>(item)];
    if (it.persistent() || (it.first <= tick && tick <= it.last)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(Name(i), " uses ", NameItem(schedule_, item), " at tick ", tick,
                                            ", outside its lifetime of ticks ", it.first, " to ", it.last));
  }

  absl::Status CheckWritten(int32_t i, int32_t item, const std::vector<bool>& written) const {
    if (written[static_cast<size_t>(item)] || schedule_.items[static_cast<size_t>(item)].persistent()) {
      return absl::OkStatus();
    }
    for (int32_t later = i; later < count(); ++later) {
      for (const Access& access : instruction(later).accesses) {
        if (access.item != item || !access.write) continue;
        return absl::InternalError(
            absl::StrCat(Name(i), " reads ", NameItem(schedule_, item), " before ", Name(later), " writes it"));
      }
    }
    return absl::InternalError(absl::StrCat(Name(i), " reads ", NameItem(schedule_, item), ", which nobody writes"));
  }

  // Every access is ordered against the last write before it, and every write against the reads since, too: by
  // transitivity, all pairs are.
  absl::Status CheckAccessOrder() const {
    struct Recent {
      int32_t writer = -1;
      std::vector<int32_t> readers;
    };
    std::vector<Recent> recent(schedule_.items.size());
    for (int32_t i = 0; i < count(); ++i) {
      for (const Access& access : instruction(i).accesses) {
        Recent& r = recent[static_cast<size_t>(access.item)];
        if (r.writer >= 0) RETURN_IF_ERROR(CheckPair(r.writer, true, i, access));
        if (!access.write) {
          r.readers.push_back(i);
          continue;
        }
        for (const int32_t reader : r.readers) RETURN_IF_ERROR(CheckPair(reader, false, i, access));
        r = {i, {}};
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckPair(int32_t earlier, bool earlier_writes, int32_t later, const Access& access) const {
    if (order_(earlier, later)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(Name(later), access.write ? " writes " : " reads ",
                                            NameItem(schedule_, access.item), " and may start before ", Name(earlier),
                                            ", which ", earlier_writes ? "writes" : "reads", " it, is over"));
  }

  const Schedule& schedule_;
  const HappensBefore& order_;
};

}  // namespace

absl::Status Check(const Schedule& schedule) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Of(schedule));
  return Checker(schedule, order).Run();
}

int MostUnitsWhole(const Schedule& schedule) {
  std::vector<std::pair<int64_t, int>> changes;  // tick, how many more
  for (const Item& item : schedule.items) {
    if (item.kind != ItemKind::kGathered || item.first < 0) continue;
    changes.emplace_back(item.first, 1);
    changes.emplace_back(item.last + 1, -1);
  }
  std::sort(changes.begin(), changes.end());  // at one tick, who leaves goes first
  int whole = 0;
  int most = 0;
  for (const auto& [tick, change] : changes) most = std::max(most, whole += change);
  return most;
}

}  // namespace reprise
