// The end of a step: norm over all shards, one sum over ranks, the update of each unit.
#ifndef REPRISE_RUNTIME_SCHEDULE_UPDATE_H_
#define REPRISE_RUNTIME_SCHEDULE_UPDATE_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/schedule/schedule_builder.h"

namespace reprise {

// `gradient_shards`, by unit, stay readable after the step.
absl::Status EmitUpdate(const UnitLayout& units, Sharding sharding, const std::vector<Operand>& gradient_shards,
                        ScheduleBuilder* builder);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_UPDATE_H_
