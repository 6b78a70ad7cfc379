// Plans drawn at random from all that a schedule can be compiled from.
//
//   std::mt19937_64 random(7);
//   const Plan plan = RandomPlan({.layers = 6, .sets = 3}, &random);
#ifndef REPRISE_TESTS_TOOLS_RANDOM_PLAN_H_
#define REPRISE_TESTS_TOOLS_RANDOM_PLAN_H_

#include <random>
#include <string>

#include "runtime/plan/plan.h"

namespace reprise::testing {

struct RandomPlanOptions {
  int layers = 1;
  int sets = 0;  // saved sets of every layer
  bool offloads = true;
  bool stays_gathered = true;
  int largest_prefetch = 3;
};

Plan RandomPlan(const RandomPlanOptions& options, std::mt19937_64* random);

// "e s0 B+ b e*": everything, saved set 0, boundary (b: shared with the layer before), + offloaded, * stays gathered.
std::string PlanLetters(const Plan& plan);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_RANDOM_PLAN_H_
