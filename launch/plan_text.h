// A job's plan as a table for people: what is kept of each block and where, the bytes, and where the peak falls.
#ifndef REPRISE_LAUNCH_PLAN_TEXT_H_
#define REPRISE_LAUNCH_PLAN_TEXT_H_

#include <string>

#include "runtime/train/job_plan.h"

namespace reprise {

std::string PlanText(const JobPlan& job);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PLAN_TEXT_H_
