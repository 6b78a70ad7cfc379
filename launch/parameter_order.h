// The order of a safetensors file of a job's parameters, which every rank can tell: by name.
//
//   for (const Parameter* parameter : ParametersByName(job)) ...
#ifndef REPRISE_LAUNCH_PARAMETER_ORDER_H_
#define REPRISE_LAUNCH_PARAMETER_ORDER_H_

#include <algorithm>
#include <vector>

#include "runtime/train/training_job.h"

namespace reprise {

inline std::vector<const Parameter*> ParametersByName(const TrainingJob& job) {
  std::vector<const Parameter*> order = job.parameters();
  std::sort(order.begin(), order.end(), [](const Parameter* a, const Parameter* b) { return a->name() < b->name(); });
  return order;
}

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PARAMETER_ORDER_H_
