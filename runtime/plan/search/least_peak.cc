#include "runtime/plan/search/least_peak.h"

#include <algorithm>

namespace reprise {
namespace {

void KeepUseful(std::vector<PeakNeed>* needs) {
  std::sort(needs->begin(), needs->end(), [](const PeakNeed& a, const PeakNeed& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.host_bytes < b.host_bytes;
  });
  size_t kept = 0;
  for (const PeakNeed& need : *needs) {
    if (kept == 0 || need.host_bytes < (*needs)[kept - 1].host_bytes) (*needs)[kept++] = need;
  }
  needs->resize(kept);
}

}  // namespace

bool HostMayBind(const Trellis& trellis, int64_t host_budget_bytes) {
  if (!trellis.offloads) return false;
  int64_t sum = 0;
  for (int32_t layer = 1; layer <= trellis.layers(); ++layer) sum += trellis.block(layer).boundary_bytes;
  return sum > host_budget_bytes;
}

PeakNeeds LeastPeaks(const Trellis& trellis, int64_t host_budget_bytes) {
  const bool count_host = HostMayBind(trellis, host_budget_bytes);
  PeakNeeds needs(trellis.states.size());
  for (int32_t cut = trellis.layers(); cut >= 0; --cut) {
    const auto c = static_cast<size_t>(cut);
    needs[c].resize(trellis.states[c].size());
    for (size_t state = 0; state < needs[c].size(); ++state) {
      std::vector<PeakNeed>& own = needs[c][state];
      if (cut == trellis.layers()) {
        if (trellis.head_bytes[state] >= 0) own.push_back({trellis.head_bytes[state], 0});
        continue;
      }
      for (const int32_t index : trellis.out_of[c][state]) {
        const Move& move = trellis.moves[static_cast<size_t>(index)];
        const int64_t host = count_host ? move.host_bytes : 0;
        for (const PeakNeed& above : needs[static_cast<size_t>(move.to_cut)][static_cast<size_t>(move.to_state)]) {
          if (above.host_bytes + host > host_budget_bytes) continue;
          own.push_back({std::max(move.needed_bytes, move.retained_bytes + above.peak_bytes), above.host_bytes + host});
        }
      }
      KeepUseful(&own);
    }
  }
  return needs;
}

int64_t SmallestPeak(const Trellis& trellis, const PeakNeeds& needs) {
  int64_t smallest = INT64_MAX;
  for (size_t state = 0; state < needs.front().size(); ++state) {
    if (needs.front()[state].empty()) continue;
    smallest = std::min(smallest, std::max(trellis.start_bytes[state], needs.front()[state].front().peak_bytes));
  }
  return smallest;
}

}  // namespace reprise
