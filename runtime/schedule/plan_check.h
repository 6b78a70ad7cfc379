// Whether a plan is one for a program, and what its layers read.
#ifndef REPRISE_RUNTIME_SCHEDULE_PLAN_CHECK_H_
#define REPRISE_RUNTIME_SCHEDULE_PLAN_CHECK_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "runtime/model/program.h"
#include "runtime/plan/plan.h"

namespace reprise {

// InvalidArgument that names the layer: another number of layers, a saved set that the layer's graph does not have, a
// layer that shares a boundary and does not recompute from one, or stays gathered in a segment of several; a boundary
// that is offloaded and that nobody reads, or that no segment starts with.
absl::Status CheckPlan(const Program& program, const Plan& plan);

// By boundary index: whether recompute or backward of layer `layer` reads the boundary before it.
std::vector<bool> ReadsOfBoundary(const Program& program, const Plan& plan, size_t layer);

// By layer: whether anything of its forward has to run again.
std::vector<bool> RecomputedLayers(const Program& program, const Plan& plan);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_PLAN_CHECK_H_
