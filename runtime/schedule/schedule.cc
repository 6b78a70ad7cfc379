#include "runtime/schedule/schedule.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reprise {

const char* ItemKindName(ItemKind kind) {
  switch (kind) {
    case ItemKind::kState:
      return "state";
    case ItemKind::kBatch:
      return "batch";
    case ItemKind::kGathered:
      return "gathered parameters";
    case ItemKind::kGradient:
      return "gradients";
    case ItemKind::kRetained:
      return "retained activations";
    case ItemKind::kTransient:
      return "transient";
    case ItemKind::kScratch:
      return "kernel scratch";
  }
  return "?";
}

const char* InstructionKindName(InstructionKind kind) {
  static constexpr const char* kNames[kInstructionKindCount] = {
      "gather", "forward",          "head", "recompute",   "backward", "offload", "reload",
      "reduce", "gather gradients", "norm", "sum scalars", "finish",   "update"};
  return kNames[static_cast<size_t>(kind)];
}

int32_t Schedule::PeakInstruction() const {
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].last_tick >= peak_tick) return static_cast<int32_t>(i);
  }
  return -1;
}

std::vector<int32_t> Schedule::ItemsAtPeak() const {
  std::vector<int32_t> live;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.memory != Memory::kDevice) continue;
    if (item.persistent() || (item.first <= peak_tick && peak_tick <= item.last))
      live.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(live.begin(), live.end(), [&](int32_t a, int32_t b) {
    return items[static_cast<size_t>(a)].bytes > items[static_cast<size_t>(b)].bytes;
  });
  return live;
}

std::string Schedule::InstructionLabel(int32_t index) const {
  const Instruction& i = instructions[static_cast<size_t>(index)];
  std::string text = InstructionKindName(i.kind);
  if (i.block >= 0) absl::StrAppend(&text, " block ", i.block);
  if (i.unit >= 0) absl::StrAppend(&text, " unit ", i.unit);
  if (i.micro_batch >= 0) absl::StrAppend(&text, " micro-batch ", i.micro_batch);
  return text;
}

std::string Schedule::InstructionText(int32_t index) const {
  const Instruction& i = instructions[static_cast<size_t>(index)];
  std::string text = absl::StrCat(InstructionLabel(index), " [", StreamName(i.stream), "]");
  if (!i.waits.empty()) absl::StrAppend(&text, " waits ", absl::StrJoin(i.waits, ", "));
  return text;
}

std::string Schedule::ToString() const {
  std::string text;
  const auto operand = [](const Operand& o) { return absl::StrCat("#", o.item, "+", o.offset, "+r*", o.rank_stride); };
  for (size_t i = 0; i < items.size(); ++i) {
    absl::StrAppend(&text, "item ", i, " ", items[i].name, " ", items[i].bytes, " B at ", items[i].offset, " ",
                    items[i].memory == Memory::kHost ? "host" : "device", " ticks ", items[i].first, "-", items[i].last,
                    "\n");
  }
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    absl::StrAppend(&text, i, ": ", InstructionText(static_cast<int32_t>(i)), " ", operand(instruction.from), " -> ",
                    operand(instruction.to), " x", instruction.count, instruction.accumulate ? " add" : "", "\n");
    for (const Call& call : instruction.calls) {
      absl::StrAppend(&text, "    ", kernels[static_cast<size_t>(call.kernel)].operation);
      for (const Operand& o : call.inputs) absl::StrAppend(&text, " ", operand(o));
      absl::StrAppend(&text, " ->");
      for (const Operand& o : call.outputs) absl::StrAppend(&text, " ", operand(o));
      absl::StrAppend(&text, " accumulate ", call.accumulate, "\n");
    }
  }
  for (const KernelSpec& spec : kernels) absl::StrAppend(&text, spec.ToString(), "\n");
  return text;
}

uint64_t Schedule::Hash() const {
  const std::string text = ToString();
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace reprise
