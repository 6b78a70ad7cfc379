// Times of a trellis's moves, in max-plus matrices.
//
// Forward of a path is built from its begin: what counts of the layers below a cut is when the step before the cut
// ends, when the offload of two steps before does, and when the gathers ahead do. Backward is built from its end, since
// it comes back to the cuts in falling order: what counts of the layers below a cut are the longest ways from the times
// at the cut to the end of the step. The head joins the two.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_MOVE_TIMES_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_MOVE_TIMES_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/search/max_plus.h"
#include "runtime/plan/search/trellis.h"

namespace reprise {

// Which times at a cut are kept, and where in a vector of times. The end of the step before is always the first.
struct TimeLayout {
  int count = 1;
  int copy = -1;     // forward: of the offload issued after the step before the last; backward: of the reload awaited
  int reduce = -1;   // of the reduction issued after the step before the last
  int gathers = -1;  // of the gathers of the next slots, one each, as many as are gathered ahead
};

class MoveTimes {
 public:
  explicit MoveTimes(const Trellis& trellis);

  // Without offloads all paths of one guess have the same forward. Then its layout has one time only, the begin of the
  // step, and the head's matrix starts from there.
  const TimeLayout& forward() const { return forward_; }
  const TimeLayout& backward() const { return backward_; }

  Times Start(int32_t state) const;  // at cut 0, in the forward
  Times Tail() const;                // longest ways from the times at cut 0, in the backward, to the end

  LagMatrix Forward(const Move& move) const;   // times behind the move from those before it
  LagMatrix Backward(const Move& move) const;  // times below the move (later) from those above it (earlier)
  LagMatrix Head(int32_t state) const;         // backward times at the last cut from forward times there

  // By time at a cut of the backward: no plan has it later than the end of the step before plus this.
  Times LargestLag(int32_t cut, int32_t state) const;

 private:
  struct ForwardTimes;
  struct BackwardTimes;

  ForwardTimes LoadForward() const;
  BackwardTimes LoadBackward() const;
  LagMatrix Store(const BackwardTimes& times) const;
  LagMatrix Unchanged() const;  // of the backward of layers that have none
  ForwardTimes RunStart(int32_t guess) const;
  void RunForward(int32_t block, int32_t guess, bool offloads, ForwardTimes* times) const;
  void Step(const Move& move, int32_t layer, int64_t duration, const Slots& slots, BackwardTimes* times) const;
  void IssueGather(const Slot& slot, Lags* gathers, const Lags& end, int64_t* lost) const;
  LagMatrix HeadFrom(const ForwardTimes& times, const CutState& state) const;
  int64_t Lost(Stream stream, int64_t ns) const;

  const Trellis& trellis_;
  TimeLayout forward_;
  TimeLayout backward_;
  std::vector<LagMatrix> fixed_heads_;  // without offloads, by state of the last cut
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_MOVE_TIMES_H_
