// The least memory in which a path can be completed. Times do not matter to it, so it is a walk from the head down that
// keeps one number a state, or where the host's memory may run out, one for each useful number of host bytes.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_LEAST_PEAK_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_LEAST_PEAK_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/search/trellis.h"

namespace reprise {

// What some completion needs: a path that retains `b` bytes and holds `h` on the host can be completed within a budget
// if b + peak_bytes and h + host_bytes are within theirs.
struct PeakNeed {
  int64_t peak_bytes = 0;
  int64_t host_bytes = 0;
};
// By cut and state: needs of which none is better than another in both, by rising peak.
using PeakNeeds = std::vector<std::vector<std::vector<PeakNeed>>>;

// What needs more of the host than `host_budget_bytes` is left out; where no path can, host bytes are not counted.
PeakNeeds LeastPeaks(const Trellis& trellis, int64_t host_budget_bytes);

// Whether paths exist that need more of the host.
bool HostMayBind(const Trellis& trellis, int64_t host_budget_bytes);

// The smallest budget of device memory that some plan fits.
int64_t SmallestPeak(const Trellis& trellis, const PeakNeeds& needs);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_LEAST_PEAK_H_
