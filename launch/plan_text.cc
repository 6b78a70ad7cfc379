#include "launch/plan_text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"

namespace reprise {
namespace {

constexpr size_t kLargestItems = 6;

std::string KeptText(const JobPlan& job, size_t layer) {
  const LayerPlan& l = job.plan.layers[layer];
  const ProgramGraph& graph = job.program.graph(layer + 1);
  std::string text = "everything";
  if (l.keep == Keep::kSet) text = graph.saved_sets[static_cast<size_t>(l.set)].name;
  if (l.keep == Keep::kBoundary) text = l.starts_segment ? "boundary" : "nothing";
  if (l.offload_boundary) absl::StrAppend(&text, ", boundary offloaded");
  if (l.stays_gathered) absl::StrAppend(&text, ", gathered");
  return text;
}

int64_t SavedBytes(const Program& program, size_t block) {
  int64_t bytes = 0;
  const ProgramGraph& graph = program.graph(block);
  for (const ValueId value : graph.routines.saved) bytes += graph.block.graph.type(value).bytes();
  return bytes;
}

int64_t BoundaryBytes(const Program& program, size_t block) {
  const ProgramGraph& graph = program.graph(block);
  int64_t bytes = 0;
  for (const Value& value : graph.block.graph.values) {
    if (value.role == ValueRole::kBoundary) bytes += value.type.bytes();
  }
  return bytes;
}

std::string UnitNames(const UnitLayout& units, size_t block) {
  std::vector<std::string> names;
  for (const int32_t unit : units.GroupOf(block).units()) names.push_back(units.units[static_cast<size_t>(unit)].name);
  return absl::StrJoin(names, ", ");
}

// One line for blocks in a row that read the same.
std::string BlockLines(const JobPlan& job) {
  std::vector<std::pair<std::string, std::string>> rows;  // name, the rest
  for (size_t b = 0; b < job.program.blocks.size(); ++b) {
    const bool layer = b > 0 && b + 1 < job.program.blocks.size();
    const std::string kept = layer ? KeptText(job, b - 1) : "-";
    rows.emplace_back(
        job.program.blocks[b].name,
        absl::StrFormat("%-32s %12s %12s %14s  %s", kept, FormatBytes(BoundaryBytes(job.program, b)),
                        FormatBytes(SavedBytes(job.program, b)),
                        FormatBytes(job.units.WholeElements(b) / job.units.ranks * 4), UnitNames(job.units, b)));
  }
  std::string text = absl::StrFormat("%-24s %-32s %12s %12s %14s  %s\n", "block", "kept of forward", "boundary",
                                     "backward reads", "shard, float32", "unit");
  for (size_t i = 0; i < rows.size();) {
    size_t end = i + 1;
    const auto same = [&](size_t k) {
      const std::string& a = rows[k].second;
      const std::string& b = rows[i].second;
      return a.substr(0, a.rfind("  ")) == b.substr(0, b.rfind("  "));
    };
    while (end < rows.size() && same(end)) ++end;
    const std::string name = end - i > 1 ? absl::StrCat(rows[i].first, " ... ", rows[end - 1].first) : rows[i].first;
    absl::StrAppend(&text, absl::StrFormat("%-24s ", name), rows[i].second, end - i > 1 ? " ..." : "", "\n");
    i = end;
  }
  return text;
}

std::string KindLines(const Schedule& schedule) {
  std::map<std::string, int64_t> bytes;
  for (const int32_t index : schedule.ItemsAtPeak()) {
    const Item& item = schedule.items[static_cast<size_t>(index)];
    bytes[ItemKindName(item.kind)] += item.bytes;
  }
  std::string text = "at the peak:";
  for (const auto& [kind, count] : bytes) absl::StrAppend(&text, " ", kind, " ", FormatBytes(count), ";");
  absl::StrAppend(&text, "\nlargest items there:");
  const std::vector<int32_t> live = schedule.ItemsAtPeak();
  for (size_t i = 0; i < std::min(live.size(), kLargestItems); ++i) {
    const Item& item = schedule.items[static_cast<size_t>(live[i])];
    absl::StrAppend(&text, i == 0 ? " " : ", ", item.name, " ", FormatBytes(item.bytes));
  }
  return text + "\n";
}

// Where whole logits would stand: chunks of them. Empty for a model without such a loss.
std::string LossLine(const Schedule& schedule) {
  int64_t chunk = 0;
  for (const Item& item : schedule.items) {
    if (item.name == "scratch of linear_cross_entropy") chunk = std::max(chunk, item.bytes);
  }
  for (const KernelSpec& spec : schedule.kernels) {
    if (spec.operation != "linear_cross_entropy" || chunk == 0) continue;
    const int64_t logits = spec.inputs[0].rows() * spec.inputs[1].shape[0] * 4;
    return absl::StrCat("loss: a chunk of rows at a time, ", chunk, " bytes (", FormatBytes(chunk),
                        ") of scratch; whole logits, ", FormatBytes(logits),
                        " in float32 and as much for their gradient, are never held\n");
  }
  return "";
}

std::string PeakBlock(const JobPlan& job) {
  const int32_t peak = job.schedule.PeakInstruction();
  if (peak < 0) return "nothing";
  const Instruction& i = job.schedule.instructions[static_cast<size_t>(peak)];
  std::string text = InstructionKindName(i.kind);
  if (i.block >= 0) absl::StrAppend(&text, " of ", job.program.blocks[static_cast<size_t>(i.block)].name);
  if (i.unit >= 0) absl::StrAppend(&text, " of unit ", job.units.units[static_cast<size_t>(i.unit)].name);
  return text;
}

}  // namespace

std::string PlanText(const JobPlan& job) {
  const JobOptions& o = job.options;
  std::string text = absl::StrFormat(
      "plan: checkpoint=%s, %d segments recomputed, %d boundaries offloaded, sharding=%s over %d ranks, prefetch %d, "
      "accumulation %d, %s\n",
      o.checkpoint, job.plan.segment_count(), job.plan.offloaded_boundaries(), ShardingName(o.sharding),
      job.units.ranks, job.plan.prefetch, o.accumulation, o.dtype == DType::kBFloat16 ? "bf16" : "fp32");
  absl::StrAppend(&text, BlockLines(job));
  absl::StrAppend(&text, "parameters: ", job.units.parameter_count());
  const int64_t trained = job.units.trained_count();
  if (trained < job.units.parameter_count()) absl::StrAppend(&text, ", of which ", trained, " are trained");
  absl::StrAppend(&text, "\n");
  absl::StrAppend(&text,
                  absl::StrFormat("predicted peak: %d bytes (%s) of device memory per rank, in %s; %s of host memory\n",
                                  job.device_bytes(), FormatBytes(job.device_bytes()), PeakBlock(job),
                                  FormatBytes(job.host_bytes())));
  absl::StrAppend(&text, KindLines(job.schedule), LossLine(job.schedule));
  return text;
}

}  // namespace reprise
