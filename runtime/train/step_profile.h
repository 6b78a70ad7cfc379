// The profile of a training step: bytes from its compiled schedules, times from a table of this or another machine.
//
//   ASSIGN_OR_RETURN(Profile profile, MakeProfile(program, units, compile_options, scratch_bytes, TableOf(times)));
#ifndef REPRISE_RUNTIME_TRAIN_STEP_PROFILE_H_
#define REPRISE_RUNTIME_TRAIN_STEP_PROFILE_H_

#include "absl/status/statusor.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/plan/machine_times.h"
#include "runtime/plan/profile.h"
#include "runtime/schedule/compiler.h"
#include "runtime/schedule/instruction_times.h"

namespace reprise {

TimeTable TableOf(const MachineTimes& times);

// Chooses the saved sets of the program's layers anew, by the table's times: plans that name them by index belong to
// that program. InvalidArgument where the table lacks a kernel.
absl::StatusOr<Profile> MakeProfile(const UnitLayout& units, const CompileOptions& options,
                                    const ScratchBytes& scratch_bytes, const TimeTable& table, Program* program);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_STEP_PROFILE_H_
