// Label walk: the exact search. Labels are paths from cut 0 that may become the fastest plan; at every cut those of one
// state are compared, and what cannot be better than another is dropped (dynamic programming with dominance, as in
// Ibaraki 1987 and for knapsacks Pisinger 1995), as is what the lower bound shows to be slower than a known plan.
//
// Of plans that are equally fast the one that retains the fewest bytes at the head comes first, then the one whose
// label is lexicographically least at the last cut, then at the cut before it, and so on. That order does not depend on
// the budget, and dominance agrees with it: what is dropped comes after what it is dropped for, whatever follows.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_LABEL_WALK_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_LABEL_WALK_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/search/label_list.h"
#include "runtime/plan/search/least_peak.h"
#include "runtime/plan/search/lower_bound.h"
#include "runtime/plan/search/move_times.h"
#include "runtime/plan/search/trellis.h"

namespace reprise {

struct WalkLimits {
  int64_t memory_budget_bytes = 0;
  int64_t host_budget_bytes = INT64_MAX;
  int64_t slowest_ns = INT64_MAX;  // only plans up to here are wanted
  int64_t labels_a_cut = INT64_MAX;
};

struct WalkResult {
  std::vector<int32_t> path;          // moves; empty where no plan was found
  int64_t time_ns = INT64_MAX;        // of one micro-batch
  int64_t retained_bytes = 0;         // at the head
  int64_t dropped_ns = INT64_MAX;     // no path that was dropped for want of room is faster
  int64_t labels = 0;                 // kept, over all cuts
  LowerBound::References references;  // the times of the most promising label of each state

  bool found() const { return !path.empty(); }
};

class LabelWalk {
 public:
  // `needs`: as LeastPeak gives them, where the host budget could bind; else null.
  LabelWalk(const Trellis& trellis, const MoveTimes& times, const LowerBound& bound, const PeakNeeds* needs,
            const WalkLimits& limits);

  WalkResult Run();

 private:
  struct Origin {
    int32_t move;
    int32_t parent;
  };

  void Start();
  void Extend(const Move& move, int32_t index, const LabelList& from, LabelList* to) const;
  void Append(Label label, const RelativeTimes& times, LabelList* list) const;
  bool Fits(const Label& label, const Move& move) const;
  void DropBeyondRoom(int32_t cut);
  void Remember(int32_t cut);
  void Finish();

  RelativeTimes TimesOf(const Label& label, const LabelList& list) const;
  LabelList& At(int32_t cut, int32_t state) { return lists_[static_cast<size_t>(cut)][static_cast<size_t>(state)]; }

  const Trellis& trellis_;
  const MoveTimes& times_;
  const LowerBound& bound_;
  const PeakNeeds* needs_;
  const WalkLimits limits_;
  const ExtraTimes extra_;

  std::vector<std::vector<LabelList>> lists_;              // by cut and state; emptied once no move leaves from there
  std::vector<std::vector<std::vector<Origin>>> origins_;  // by cut, state and label
  WalkResult result_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_LABEL_WALK_H_
