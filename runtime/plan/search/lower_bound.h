// A lower bound of what the layers above a cut still cost, as a convex function of the bytes that those below retain.
//
// Two relaxations make it cheap. Times: of a path's max-plus vectors only one number is followed, the least by which
// the vector exceeds a reference vector of the cut's state (a potential). Any reference gives a bound; the vector of a
// good path gives one that is tight near it. Bytes: at every cut the function over all moves out of it is made convex,
// that is, moves may be mixed. That is at least as good as a Lagrangian relaxation of all memory limits (Fisher 1981),
// with the best multipliers for each number of bytes, and needs no search for them.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_LOWER_BOUND_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_LOWER_BOUND_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/search/convex_function.h"
#include "runtime/plan/search/move_times.h"
#include "runtime/plan/search/trellis.h"

namespace reprise {

// Times at a cut beside the first of each vector, which is 0 in both.
struct RelativeTimes {
  Times forward = {};
  Times backward = {};
};

// A bound that was added up in doubles as a whole number, such that rounding cannot have raised it.
int64_t RoundUpSafely(double bound);

class LowerBound {
 public:
  // `host_budget_bytes`: -1 where the host's memory cannot run out. Without a budget of the device's memory it only
  // knows what does not depend on that; ask what Within gives.
  LowerBound(const Trellis& trellis, const MoveTimes& times, int64_t host_budget_bytes);

  // The bound for this budget, with the references at hand.
  LowerBound Within(int64_t memory_budget_bytes) const;

  // By cut and state. Sets the bound from them.
  using References = std::vector<std::vector<RelativeTimes>>;
  const References& references() const { return references_; }
  void Refine(References references);

  // Least relative times: any path's are at least these, and raising them up to there changes no path's time.
  const RelativeTimes& floor(int32_t cut, int32_t state) const { return At(floors_, cut, state); }

  // Of every plan that fits, in ns; infinite: none does.
  double OfAll() const { return of_all_; }
  // Whether no plan that fits is as fast as that.
  bool Excludes(int64_t time_ns) const;
  // Of the layers above the cut, in ns, where those below retain `bytes`; empty: nothing above fits.
  const ConvexFunction& ToGo(int32_t cut, int32_t state) const { return At(to_go_, cut, state); }
  // What a move adds at least to what its vectors exceed the references by.
  int64_t AtLeast(int32_t move) const { return at_least_[static_cast<size_t>(move)]; }
  // What a path's vectors exceed the references by before the first move, and what the head then adds.
  int64_t Begin(int32_t state) const;
  int64_t End(int32_t state) const;
  // What a path that holds so much on the host is charged, beside that ToGo charges what is still to be offloaded.
  double HostCharge(int64_t host_bytes) const {
    return host_price_ == 0 ? 0 : host_price_ * static_cast<double>(host_bytes - host_budget_);
  }
  // By how much less than the sum of its first times a vector counts.
  int64_t Correction(int32_t cut, int32_t state, const RelativeTimes& times) const;

 private:
  template <typename T>
  static const T& At(const std::vector<std::vector<T>>& table, int32_t cut, int32_t state) {
    return table[static_cast<size_t>(cut)][static_cast<size_t>(state)];
  }
  int64_t LeastExcess(const Move& move) const;
  void Refer(References references);
  void BuildAtBestPrice();
  void Build();
  void BuildAt(double host_price);
  void SearchHostPrice();

  const Trellis* trellis_;
  const MoveTimes* times_;
  int64_t budget_ = 0;
  int64_t host_budget_;
  double host_price_ = 0;  // ns a byte
  References references_;
  References floors_;
  std::vector<std::vector<int64_t>> least_bytes_;  // retained below a cut
  std::vector<int64_t> at_least_;                  // by move
  std::vector<std::vector<ConvexFunction>> to_go_;
  double of_all_ = 0;
  double dearest_ = 0;  // the most that a byte of the device is worth, in ns
};

// The end of the step by a path with these times at the last cut, less the sum of their first times.
int64_t JoinAtHead(const LagMatrix& head, const TimeLayout& forward, const TimeLayout& backward,
                   const RelativeTimes& times);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_LOWER_BOUND_H_
