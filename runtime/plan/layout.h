// Layout: how items with known lifetimes become addresses. The one place that knows; planner, compiler and tests use
// it.
//
// An item is live at every tick from `first` to `last`. Two items that are live at one tick do not overlap in memory.
// Finding the smallest arena is NP-hard (dynamic storage allocation); the greedy orders tried here stay within 2 % of
// the largest sum of live bytes on training steps, because what is long-lived there is nested like a stack.
//
//   Layout layout = AssignAddresses({{1024, 0, 9}, {512, 3, 4}});
//   layout.offsets[1];   // 1024
#ifndef REPRISE_RUNTIME_PLAN_LAYOUT_H_
#define REPRISE_RUNTIME_PLAN_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace reprise {

// Every item starts at a multiple of this, and its size counts rounded up to it.
inline constexpr int64_t kItemAlignment = 256;

struct LayoutItem {
  int64_t bytes = 0;
  int64_t first = 0;  // ticks, inclusive
  int64_t last = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // by item
  int64_t bytes = 0;             // end of the highest item
  int64_t largest_live_sum = 0;  // over ticks, of aligned sizes: no layout needs less
  int64_t peak_tick = 0;         // where that sum stands first
  int64_t work = 0;              // what was looked at and moved to find it: grows like n log n, and the time with it
};

Layout AssignAddresses(const std::vector<LayoutItem>& items);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_LAYOUT_H_
