#include "runtime/schedule/instruction_times.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

int64_t Of(const TimeTable::OfSize& function, int64_t size) { return function ? function(size) : 0; }

// Each kernel of the schedule is looked up once, however many calls it has.
absl::StatusOr<std::vector<int64_t>> KernelTimes(const Schedule& schedule, const TimeTable& table) {
  std::vector<int64_t> ns;
  for (const KernelSpec& spec : schedule.kernels) {
    const std::string name = spec.ToString();
    const auto found = table.kernel_ns.find(name);
    if (found == table.kernel_ns.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the table of times has no kernel ", name, "; measure it for this model and shape"));
    }
    ns.push_back(found->second);
  }
  return ns;
}

int64_t ItemBytes(const Schedule& schedule, const Operand& operand) {
  return operand.item < 0 ? 0 : schedule.items[static_cast<size_t>(operand.item)].bytes;
}

int64_t TimeOf(const Schedule& schedule, const Instruction& i, const TimeTable& table,
               const std::vector<int64_t>& kernel_ns) {
  switch (i.kind) {
    case InstructionKind::kGather:
    case InstructionKind::kGatherGradients:
      return Of(table.gather_ns, ItemBytes(schedule, i.to));
    case InstructionKind::kReduce:
      return Of(table.reduce_ns, ItemBytes(schedule, i.from));
    case InstructionKind::kOffload:
      return Of(table.offload_ns, i.count);
    case InstructionKind::kReload:
      return Of(table.reload_ns, i.count);
    case InstructionKind::kUpdate:
      return Of(table.update_ns, i.count);
    case InstructionKind::kSumScalars:
      return table.sum_scalars_ns;
    case InstructionKind::kFinish:
      return table.finish_ns;
    case InstructionKind::kForward:
    case InstructionKind::kHead:
    case InstructionKind::kRecompute:
    case InstructionKind::kBackward:
    case InstructionKind::kNorm:
      break;
  }
  int64_t ns = 0;
  for (const Call& call : i.calls) ns += kernel_ns[static_cast<size_t>(call.kernel)];
  return ns;
}

}  // namespace

absl::StatusOr<InstructionTimes> TimesFromTable(const Schedule& schedule, const TimeTable& table) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel_ns, KernelTimes(schedule, table));
  InstructionTimes times;
  times.interference_millionths = table.interference_millionths;
  for (const Instruction& i : schedule.instructions) times.ns.push_back(TimeOf(schedule, i, table, kernel_ns));
  return times;
}

}  // namespace reprise
