// The compute steps of a plan, in order, as docs/plan_profile.md lists them, and what belongs to each.
//
//   ASSIGN_OR_RETURN(ChainSteps chain, StepsOf(profile, plan));
//   for (const ChainStep& step : chain.steps) ...   // F(0) F(1) ... F(N) H R(N) B(N) ... B(0)
#ifndef REPRISE_RUNTIME_PLAN_CHAIN_STEPS_H_
#define REPRISE_RUNTIME_PLAN_CHAIN_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/profile.h"

namespace reprise {

enum class StepKind : uint8_t { kForward, kHead, kRecompute, kBackward };

// Neighbouring layers that share the boundary before the first of them. Numbers are those of blocks: layers are 1..N.
struct ChainSegment {
  int64_t first = 0;
  int64_t last = 0;
  bool boundary_retained = false;  // something in backward or recompute reads it
  bool offloaded = false;

  bool several() const { return last > first; }
};

struct ChainStep {
  StepKind kind = StepKind::kForward;
  int64_t block = 0;
  int64_t segment = -1;  // whose backward this is part of; -1: forward, head, B(0)
  int64_t slot = -1;     // run of neighbouring steps of one unit; -1: B(0), which uses no parameters
  bool starts_segment = false;
  bool starts_slot = false;
};

struct ChainSteps {
  std::vector<ChainStep> steps;
  std::vector<ChainSegment> segments;
  std::vector<const OptionProfile*> options;  // by block; null for the first and last. They belong to the profile.
  std::vector<int64_t> segment_of;            // by block; -1 for the first and last
  std::vector<int64_t> first_step_of_slot;
};

// InvalidArgument as CostOf (plan_cost.h). The profile has been checked.
absl::StatusOr<ChainSteps> StepsOf(const Profile& profile, const Plan& plan);

// "backward of layer 3".
std::string StepName(const Profile& profile, const ChainStep& step);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_CHAIN_STEPS_H_
