#include "runtime/train/trace.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/memory_curve.h"
#include "runtime/train/json_object.h"

namespace reprise {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1000;  // of the format's times

double Microseconds(int64_t ns) { return static_cast<double>(ns) / kNanosecondsPerMicrosecond; }

class TraceText {
 public:
  TraceText(const JobPlan& job, const Timeline& timeline, const TraceDetails& details)
      : job_(job), schedule_(job.schedule), timeline_(timeline), details_(details) {}

  std::string Run() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":";
    absl::StrAppend(&text_, OtherData().text(), ",\n\"traceEvents\":[");
    AddNames();
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) AddInstruction(i);
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      for (const int32_t wait : schedule_.instructions[i].waits) AddArrow(static_cast<size_t>(wait), i);
    }
    AddMemory();
    return std::move(text_) + "\n]}\n";
  }

 private:
  JsonObject OtherData() const {
    const TimeByCause time = CausesOf(schedule_, timeline_);
    JsonObject causes;
    for (int cause = 0; cause < kTimeCauseCount; ++cause) {
      causes.Add(TimeCauseName(static_cast<TimeCause>(cause)), time.ns[static_cast<size_t>(cause)]);
    }
    const int32_t peak = schedule_.PeakInstruction();
    return JsonObject()
        .Add("program", details_.program)
        .Add("source", details_.source)
        .Add("rank", details_.rank)
        .Add("ranks", job_.units.ranks)
        .Add("step", details_.step)
        .Add("step_ns", timeline_.StepNanoseconds())
        .Add("predicted_peak_device_bytes", schedule_.device_bytes)
        .Add("largest_live_bytes", schedule_.largest_live_sum)
        .Add("peak_instruction", peak < 0 ? "" : InstructionName(job_, peak))
        .Add("memory_budget_bytes", job_.options.memory_budget_bytes)
        .Add("time_by_cause_ns", causes);
  }

  void Add(const JsonObject& event) {
    absl::StrAppend(&text_, first_ ? "\n" : ",\n", event.text());
    first_ = false;
  }

  JsonObject Event(const char* phase, absl::string_view name) const {
    return JsonObject().Add("ph", phase).Add("pid", details_.rank).Add("name", name);
  }

  void AddNames() {
    Add(Event("M", "process_name")
            .Add("args", JsonObject().Add("name", absl::StrCat("rank ", details_.rank, " of ", job_.units.ranks, ", ",
                                                               details_.source))));
    for (const Stream stream : kAllStreams) {
      const int number = static_cast<int>(stream);
      Add(Event("M", "thread_name").Add("tid", number).Add("args", JsonObject().Add("name", StreamName(stream))));
      Add(Event("M", "thread_sort_index").Add("tid", number).Add("args", JsonObject().Add("sort_index", number)));
    }
  }

  void AddInstruction(size_t index) {
    const Instruction& i = schedule_.instructions[index];
    const int64_t ns = timeline_.end_ns[index] - timeline_.start_ns[index];
    JsonObject arguments;
    arguments.Add("instruction", index).Add("label", schedule_.InstructionLabel(static_cast<int32_t>(index)));
    arguments.Add("bytes", BytesOf(i));
    if (i.flops > 0) arguments.Add("flops", i.flops);
    if (i.flops > 0 && ns > 0) {
      arguments.Add("gflop_per_second", static_cast<double>(i.flops) / static_cast<double>(ns));
    }
    std::vector<std::string> waits;
    for (const int32_t wait : i.waits) waits.push_back(absl::StrCat(wait, ": ", schedule_.InstructionLabel(wait)));
    if (!waits.empty()) arguments.Add("waits", waits);
    Add(Event("X", InstructionName(job_, static_cast<int32_t>(index)))
            .Add("cat", InstructionKindName(i.kind))
            .Add("tid", static_cast<int>(i.stream))
            .Add("ts", Microseconds(timeline_.start_ns[index]))
            .Add("dur", Microseconds(ns))
            .Add("args", arguments));
  }

  // Of a transfer: what it moves. Of compute: the items that it reads or writes.
  int64_t BytesOf(const Instruction& i) const {
    const auto item_bytes = [&](int32_t item) { return schedule_.items[static_cast<size_t>(item)].bytes; };
    if (i.kind == InstructionKind::kOffload || i.kind == InstructionKind::kReload) return i.count;
    if (i.kind == InstructionKind::kGather || i.kind == InstructionKind::kGatherGradients) return item_bytes(i.to.item);
    if (i.kind == InstructionKind::kReduce) return item_bytes(i.from.item);
    int64_t bytes = 0;
    for (const Access& access : i.accesses) bytes += item_bytes(access.item);
    return bytes;
  }

  // An arrow begins in an event, so one nanosecond before its end.
  void AddArrow(size_t from, size_t to) {
    const int64_t begin_ns = std::max(timeline_.start_ns[from], timeline_.end_ns[from] - 1);
    ++arrows_;
    const auto end = [&](const char* phase, size_t instruction, int64_t ns) {
      return Event(phase, "wait")
          .Add("cat", "wait")
          .Add("id", arrows_)
          .Add("tid", static_cast<int>(schedule_.instructions[instruction].stream))
          .Add("ts", Microseconds(ns));
    };
    Add(end("s", from, begin_ns));
    Add(end("f", to, timeline_.start_ns[to]).Add("bp", "e"));
  }

  void AddMemory() {
    for (const MemoryPoint& point : MemoryCurve(schedule_, timeline_)) {
      JsonObject kinds;
      for (int kind = 0; kind < kItemKindCount; ++kind) {
        kinds.Add(ItemKindName(static_cast<ItemKind>(kind)), point.bytes[static_cast<size_t>(kind)]);
      }
      const double at = Microseconds(point.ns);
      Add(Event("C", "device memory")
              .Add("ts", at)
              .Add("args", JsonObject().Add("live", point.live_bytes()).Add("highest address", point.highest_byte)));
      Add(Event("C", "device memory by kind").Add("ts", at).Add("args", kinds));
    }
  }

  const JobPlan& job_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  const TraceDetails& details_;
  std::string text_;
  bool first_ = true;
  int64_t arrows_ = 0;
};

}  // namespace

std::string InstructionName(const JobPlan& job, int32_t index) {
  const Instruction& i = job.schedule.instructions[static_cast<size_t>(index)];
  std::string name = InstructionKindName(i.kind);
  if (i.block >= 0) {
    absl::StrAppend(&name, " ", job.program.blocks[static_cast<size_t>(i.block)].name);
  } else if (i.unit >= 0) {
    absl::StrAppend(&name, " ", job.units.units[static_cast<size_t>(i.unit)].name);
  }
  if (job.options.accumulation > 1 && i.micro_batch >= 0) absl::StrAppend(&name, ", micro-batch ", i.micro_batch);
  return name;
}

std::string TraceJson(const JobPlan& job, const Timeline& timeline, const TraceDetails& details) {
  return TraceText(job, timeline, details).Run();
}

}  // namespace reprise
