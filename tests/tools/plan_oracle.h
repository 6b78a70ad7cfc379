// What a plan costs, a second time: written from docs/plan_profile.md alone, as plainly as it goes, and without a line
// of runtime/plan's own code. The planner and CostOf are checked against it.
//
//   PlanOracle oracle(profile);
//   OracleCost cost = oracle.Cost(plan);
//   EXPECT_EQ(cost.time_ns, ...) << oracle.Explain(plan);
//
// The plan must belong to the profile. Not thread-safe: tables are kept between calls, for brute force.
#ifndef REPRISE_TESTS_TOOLS_PLAN_ORACLE_H_
#define REPRISE_TESTS_TOOLS_PLAN_ORACLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/profile.h"

namespace reprise::testing {

struct OracleCost {
  int64_t time_ns = 0;
  int64_t peak_bytes = 0;
  int64_t host_bytes = 0;
};

// The option that the plan takes for a layer (counted from 0; block layer + 1): its index, or -1 if there is none.
int OptionIndexOf(const Profile& profile, const Plan& plan, int64_t layer);

class PlanOracle {
 public:
  explicit PlanOracle(const Profile& profile) : profile_(profile) {}

  OracleCost Cost(const Plan& plan);
  // A line a step: start, end, bytes by kind; then a line a transfer. For the message of a failing test.
  std::string Explain(const Plan& plan);

 private:
  enum class Kind : uint8_t { kForward, kHead, kRecompute, kBackward };
  struct Step {
    Kind kind;
    int64_t block;
    int64_t slot = -1;  // -1: uses no parameters
    int64_t ns = 0;     // without interference
    int64_t start = 0;
    int64_t end = 0;
  };
  // What the plan says of a layer, by block; first and last block stay empty.
  struct Layer {
    const OptionProfile* option = nullptr;
    int64_t first = 0;  // blocks of its segment
    int64_t last = 0;
    bool offloaded = false;
    bool stays_gathered = false;
    int64_t begins = 0;     // step in which its backward begins: its own recompute, or B
    int64_t backward = 0;   // step B
    int64_t reload_at = 0;  // offloaded: the step before which the reload is issued
  };
  struct Slot {
    int64_t block;
    int64_t first_step;
    bool gathers;
    int64_t issued_before = 0;  // step
  };
  struct Transfer {
    int64_t after;      // the step that must have ended; -1: none
    int64_t waited_by;  // a step, or one past the last: nobody waits
    int64_t lengthens;  // likewise
    int64_t ns;
    int64_t block;
    int64_t start = 0;
    int64_t end = 0;
  };
  // What stands live in a step, by the numbers of the document's list.
  struct Bytes {
    int64_t state = 0, retained = 0, own = 0, gathered = 0, reloading = 0, gradients = 0;
    int64_t sum() const { return state + retained + own + gathered + reloading + gradients; }
  };

  const BlockProfile& block(int64_t b) const { return profile_.blocks[static_cast<size_t>(b)]; }
  Layer& layer(int64_t b) { return layers_[static_cast<size_t>(b)]; }
  const Layer& layer(int64_t b) const { return layers_[static_cast<size_t>(b)]; }
  std::vector<Transfer>& on(Stream stream) { return transfers_[static_cast<size_t>(stream)]; }

  void ReadPlan(const Plan& plan);
  void AddStep(Kind kind, int64_t block, int64_t ns);
  void ListSteps();
  void ListSlots(int64_t prefetch);
  void ListTransfers();
  int64_t RunStreams();
  bool KeepsBoundary(int64_t b) const;
  int64_t RetainedOf(int64_t b) const;
  int64_t OwnBytes(const Step& step) const;
  int64_t GatheredBytes(int64_t s) const;
  Bytes BytesIn(int64_t s) const;

  const Profile& profile_;
  std::vector<Layer> layers_;
  std::vector<Step> steps_;
  std::vector<Slot> slots_;
  std::array<std::vector<Transfer>, kStreamCount> transfers_;
  std::vector<int64_t> longer_;  // by step
  std::vector<int64_t> waits_;   // by step: not before this time
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_PLAN_ORACLE_H_
