// Times of a step as functions of earlier times. In a schedule a time is the largest of some others, each plus a
// duration; so over any stretch of it the times at its end are a matrix in the algebra of max and plus (Baccelli et al.
// 1992, Synchronization and Linearity) applied to those at its begin.
//
//   Lags end = Lags::Of(0) + 10;            // 10 ns after time 0
//   end = Max(end, Lags::Of(1)) + 5;        // ... then 5 ns after that and time 1: {15, 5}
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_MAX_PLUS_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_MAX_PLUS_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace reprise {

// End of a compute step, a reduction, a reload or offload, three gathers.
inline constexpr int kMostTimes = 6;

// Far before everything, also with all durations of a profile added (CheckProfile: below 2^60).
inline constexpr int64_t kNever = -(int64_t{1} << 61);

using Times = std::array<int64_t, kMostTimes>;

// A time t = max over i of (time i + lag i).
struct Lags {
  Times lag;

  static Lags Never() {
    Lags result;
    result.lag.fill(kNever);
    return result;
  }
  static Lags Of(int time) {
    Lags result = Never();
    result.lag[static_cast<size_t>(time)] = 0;
    return result;
  }
};

inline Lags operator+(Lags a, int64_t ns) {
  for (int64_t& lag : a.lag) lag += ns;
  return a;
}

inline Lags Max(Lags a, const Lags& b) {
  for (size_t i = 0; i < a.lag.size(); ++i) a.lag[i] = std::max(a.lag[i], b.lag[i]);
  return a;
}

// By time at the end of a stretch: how it depends on those at its begin.
using LagMatrix = std::array<Lags, kMostTimes>;

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_MAX_PLUS_H_
