// Compiler: Program + units + Plan -> Schedule.
//
//   ASSIGN_OR_RETURN(Schedule schedule, Compile(program, units, plan, {.sharding = Sharding::kFull}, scratch_bytes));
//
// What it fixes: the order of issue, when units are gathered (plan.prefetch ahead), when boundaries leave for the host
// and return (a block ahead), which memory each instruction uses and from when to when, the waits, and the addresses.
#ifndef REPRISE_RUNTIME_SCHEDULE_COMPILER_H_
#define REPRISE_RUNTIME_SCHEDULE_COMPILER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/plan/plan.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

struct CompileOptions {
  Sharding sharding = Sharding::kFull;
  int accumulation = 1;      // micro-batches a step
  int optimizer_states = 2;  // float32 tensors per parameter: 2 for AdamW, 0 for SGD
};

// Scratch that a kernel needs, in bytes.
using ScratchBytes = std::function<absl::StatusOr<int64_t>(const KernelSpec& spec)>;

// A training step (program.shape.training), or one evaluation of a micro-batch, whose state and batch items have the
// addresses of the training step of the same options.
absl::StatusOr<Schedule> Compile(const Program& program, const UnitLayout& units, const Plan& plan,
                                 const CompileOptions& options, const ScratchBytes& scratch_bytes);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_COMPILER_H_
