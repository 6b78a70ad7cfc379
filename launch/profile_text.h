// What `reprise plan` says of a plan that was made from a profile: for people, and as JSON for programs.
#ifndef REPRISE_LAUNCH_PROFILE_TEXT_H_
#define REPRISE_LAUNCH_PROFILE_TEXT_H_

#include <string>

#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"
#include "runtime/train/job_plan.h"

namespace reprise {

// A plan of a saved profile: what each layer keeps, time, peak, proof.
std::string SolutionText(const Profile& profile, const Solution& solution, int64_t smallest_budget);
std::string SolutionJson(const Profile& profile, const Solution& solution, int64_t smallest_budget);

// Behind PlanText(job): predicted step time and how far it can be from the best; empty where the job's times are not
// known.
std::string EstimateText(const JobPlan& job);

// Behind that: the smallest budgets, and how much of what boundaries take offloading them would save.
std::string SmallestBudgetsText(const JobPlan& job, const SmallestBudgets& smallest);
// All of it for programs; the job's times must be known.
std::string PlanJson(const JobPlan& job, const SmallestBudgets& smallest);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PROFILE_TEXT_H_
