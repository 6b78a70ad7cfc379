// What a plan costs on a profile, by the rules of docs/plan_profile.md: a simulation of the step's streams, and the
// sum of bytes at every step.
//
//   ASSIGN_OR_RETURN(PlanCost cost, CostOf(profile, plan));
//   cost.peak_bytes;   // at cost.peak_step, "backward of layer 3"
#ifndef REPRISE_RUNTIME_PLAN_PLAN_COST_H_
#define REPRISE_RUNTIME_PLAN_PLAN_COST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/profile.h"

namespace reprise {

struct PlanCost {
  int64_t time_ns = 0;     // of the whole step
  int64_t peak_bytes = 0;  // of device memory
  std::string peak_step;
  int64_t host_bytes = 0;
};

// InvalidArgument for a plan that does not belong to the profile: another number of layers, a saved set that a layer
// does not have, an offloaded boundary that nobody reads or that does not start a segment, a prefetch beyond 0..3.
absl::StatusOr<PlanCost> CostOf(const Profile& profile, const Plan& plan);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_PLAN_COST_H_
