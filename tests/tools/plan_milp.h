// The planning problem on one stream (no transfers: a plan's time is a sum) as a mixed integer program, solved exactly
// by COIN-OR CBC in a process of its own. Written from docs/plan_profile.md, with no code of the planner and none of
// the oracle: a binary variable for each segment and option that could stand in a plan, one memory row for each step.
//
//   PlanMilp milp(profile, longest_segment);
//   MilpAnswer answer = milp.Fastest(budget_bytes);   // answer.plan, answer.recompute_ns
//
// The profile must neither gather nor reduce, and all its sizes be multiples of 256.
#ifndef REPRISE_TESTS_TOOLS_PLAN_MILP_H_
#define REPRISE_TESTS_TOOLS_PLAN_MILP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/profile.h"

namespace reprise::testing {

// Whether the program `cbc` can be started (Debian's package coinor-cbc).
bool HasCbc();

struct MilpAnswer {
  bool solved = false;  // CBC said optimal or infeasible
  bool feasible = false;
  int64_t objective = 0;  // nanoseconds of recompute in a micro-batch, or bytes
  Plan plan;
  std::string log;  // what CBC said, where it is not solved
};

class PlanMilp {
 public:
  PlanMilp(const Profile& profile, int64_t longest_segment);

  MilpAnswer Fastest(int64_t budget_bytes) const;
  MilpAnswer SmallestPeak() const;

 private:
  // Layers first..last as one segment with one option: a binary variable.
  struct Piece {
    int64_t first;
    int64_t last;
    const OptionProfile* option;
    int64_t recompute_ns = 0;
  };
  // Sum of bytes over chosen pieces, and what is there whatever is chosen.
  struct Row {
    std::vector<std::pair<size_t, int64_t>> bytes_of_piece;
    int64_t constant = 0;
  };

  const BlockProfile& block(int64_t b) const { return profile_.blocks[static_cast<size_t>(b)]; }
  bool Recomputes(const Piece& p) const { return p.first < p.last || p.option->recompute_ns > 0; }
  int64_t Retained(const Piece& p, int64_t through) const;
  int64_t InForward(const Piece& p, int64_t layer) const;
  int64_t WaitingIn(const Piece& p, int64_t layer) const;
  int64_t InRecompute(const Piece& p, int64_t layer) const;
  int64_t InBackward(const Piece& p, int64_t layer) const;
  int64_t GradientsLeftBehind(int64_t b) const;
  void AddPieces(int64_t longest_segment);
  void AddRows();
  std::string Covering() const;
  MilpAnswer Solve(const std::string& objective, const std::string& rows, const std::string& bounds) const;
  Plan PlanOf(const std::vector<bool>& chosen) const;

  const Profile& profile_;
  std::vector<Piece> pieces_;
  std::vector<Row> rows_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_PLAN_MILP_H_
