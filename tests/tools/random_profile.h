// Profiles, limits and plans by seed, for tests of the planner.
//
//   const Profile profile = RandomProfile(7, {.largest_layers = 30});
//   std::mt19937_64 random(7);
//   const Plan plan = RandomPlan(profile, RandomLimits(profile, random), /*thrift=*/0.3, random);
//
// The same seed gives the same profile on every machine. Most are such as models give: what a step needs holds what it
// keeps, a set that keeps less recomputes more. Some have few distinct values, so that many plans tie; some have all
// layers equal; in some every field is drawn for itself, because the planner may rely on nothing that CheckProfile does
// not ask for.
#ifndef REPRISE_TESTS_TOOLS_RANDOM_PROFILE_H_
#define REPRISE_TESTS_TOOLS_RANDOM_PROFILE_H_

#include <cstdint>
#include <random>

#include "runtime/plan/plan.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"

namespace reprise::testing {

// Numbers of a Mersenne Twister; std's distributions differ between libraries.
int64_t RandomBetween(std::mt19937_64& random, int64_t smallest, int64_t largest);
bool RandomChance(std::mt19937_64& random, double probability);

struct RandomProfileSpec {
  int64_t smallest_layers = 0;
  int64_t largest_layers = 6;
  int64_t smallest_options = 2;
  int64_t largest_options = 6;
  bool transfers = true;           // false: neither gathers nor reduces, and interference nowhere
  bool wild = true;                // some profiles have no relations between fields
  int64_t largest_units = 100000;  // sizes are up to so many times 256 bytes
  int64_t largest_ns = 100000000;
};
Profile RandomProfile(uint64_t seed, const RandomProfileSpec& spec = {});

// Offload, staying gathered, segments and prefetch, each drawn; no budgets.
PlanLimits RandomLimits(const Profile& profile, std::mt19937_64& random);

// A plan within the limits but for their budgets. `thrift` in 0..1: how many layers keep less than everything.
Plan RandomPlan(const Profile& profile, const PlanLimits& limits, double thrift, std::mt19937_64& random);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_RANDOM_PROFILE_H_
