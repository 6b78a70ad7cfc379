// Every plan of the class of docs/plan_profile.md, one by one, for brute force.
//
//   ForEachPlan(profile, limits, [&](const Plan& plan) { ... });
//
// The budgets of the limits are not looked at. Without gathers the prefetch depth changes nothing and is not varied.
#ifndef REPRISE_TESTS_TOOLS_EVERY_PLAN_H_
#define REPRISE_TESTS_TOOLS_EVERY_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/plan/plan.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"

namespace reprise::testing {

using PlanVisitor = std::function<void(const Plan& plan)>;
void ForEachPlan(const Profile& profile, const PlanLimits& limits, const PlanVisitor& visit);

// How many there are, by recurrence; INT64_MAX where it is more.
int64_t CountPlans(const Profile& profile, const PlanLimits& limits);

// "d1 0 2o 1g b3o": prefetch, then a word a segment: option of its layer, or b and the number of its layers; o:
// offloaded, g: stays gathered.
std::string PlanLetters(const Profile& profile, const Plan& plan);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_EVERY_PLAN_H_
