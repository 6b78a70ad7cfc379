// The exact bytes of a profile (runtime/plan/profile.h), from compiled schedules: each way to run the layers is
// compiled for all of them at once, and what docs/plan_profile.md counts apart is taken off the live bytes of each
// step. Nothing is run.
//
//   Profile profile;
//   RETURN_IF_ERROR(FillBytes(program, units, {.sharding = Sharding::kFull}, scratch_bytes, &profile));
//   profile.blocks[1].options[0].kept_bytes;   // of the first layer, keeping everything
#ifndef REPRISE_RUNTIME_SCHEDULE_PLAN_BYTES_H_
#define REPRISE_RUNTIME_SCHEDULE_PLAN_BYTES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/plan/profile.h"
#include "runtime/schedule/compiler.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

// Fills in every field of `profile` that is a size or follows from the graphs and the sharding (names, options,
// gathers, reduces, accumulation); times are left as they are. The options of a layer are everything, its graph's saved
// sets, boundary. Blocks and options are made where they are missing. Errors of Compile.
absl::Status FillBytes(const Program& program, const UnitLayout& units, const CompileOptions& options,
                       const ScratchBytes& scratch_bytes, Profile* profile);

// Live bytes of device items that do not stay for the whole step, by tick; sizes rounded up as the arena does.
std::vector<int64_t> LiveBytes(const Schedule& schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_PLAN_BYTES_H_
