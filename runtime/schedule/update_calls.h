// Which update kernel runs over which part of a unit's shard: weight decay goes to parameters of two or more
// dimensions.
#ifndef REPRISE_RUNTIME_SCHEDULE_UPDATE_CALLS_H_
#define REPRISE_RUNTIME_SCHEDULE_UPDATE_CALLS_H_

#include <cstdint>
#include <vector>

#include "runtime/fsdp/unit.h"
#include "runtime/schedule/optimizer_settings.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

struct UpdateCall {
  KernelSpec spec;
  int64_t first = 0;  // element, from the start of the part
};

// Covers [begin, begin + count) of the unit. Padding goes with the parameter before it: zeros stay zeros.
std::vector<UpdateCall> UpdateCalls(const Unit& unit, int64_t begin, int64_t count, const OptimizerSettings& optimizer);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_UPDATE_CALLS_H_
