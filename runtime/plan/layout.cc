#include "runtime/plan/layout.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"

namespace reprise {
namespace {

int64_t AlignedBytes(const LayoutItem& item) { return RoundUp(item.bytes, kItemAlignment); }

void FindPeak(const std::vector<LayoutItem>& items, Layout* layout) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // tick, bytes
  changes.reserve(items.size() * 2);
  for (const LayoutItem& item : items) {
    changes.emplace_back(item.first, AlignedBytes(item));
    changes.emplace_back(item.last + 1, -AlignedBytes(item));
  }
  std::sort(changes.begin(), changes.end());  // at one tick, what is given back (negative) comes first
  int64_t live = 0;
  for (const auto& [tick, bytes] : changes) {
    live += bytes;
    if (live > layout->largest_live_sum) {
      layout->largest_live_sum = live;
      layout->peak_tick = tick;
    }
  }
}

// Places items in the order given, each at the lowest address that is free over its lifetime.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

struct Placed {
  int64_t begin, end, first, last;
};

Placement Place(const std::vector<LayoutItem>& items, const std::vector<int32_t>& order, int64_t give_up_at) {
  Placement result{std::vector<int64_t>(items.size(), 0), 0};
  std::vector<Placed> placed;  // by begin
  placed.reserve(items.size());
  for (const int32_t index : order) {
    const LayoutItem& item = items[static_cast<size_t>(index)];
    const int64_t size = AlignedBytes(item);
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.begin >= offset + size) break;
      if (other.end > offset && other.first <= item.last && item.first <= other.last) offset = other.end;
    }
    result.offsets[static_cast<size_t>(index)] = offset;
    result.bytes = std::max(result.bytes, offset + size);
    if (result.bytes >= give_up_at) return result;
    const Placed entry{offset, offset + size, item.first, item.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                  entry);
  }
  return result;
}

using Before = bool (*)(const LayoutItem& a, const LayoutItem& b);

int64_t Duration(const LayoutItem& item) { return item.last - item.first; }

// Long-lived first builds stacks; large first leaves the small ones to fill the holes; area is between the two.
constexpr Before kOrders[] = {
    [](const LayoutItem& a, const LayoutItem& b) {
      return Duration(a) != Duration(b) ? Duration(a) > Duration(b) : a.bytes > b.bytes;
    },
    [](const LayoutItem& a, const LayoutItem& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : Duration(a) > Duration(b);
    },
    [](const LayoutItem& a, const LayoutItem& b) {
      return static_cast<double>(a.bytes) * static_cast<double>(Duration(a) + 1) >
             static_cast<double>(b.bytes) * static_cast<double>(Duration(b) + 1);
    },
    [](const LayoutItem& a, const LayoutItem& b) { return a.first < b.first; },
};

}  // namespace

Layout AssignAddresses(const std::vector<LayoutItem>& items) {
  Layout layout;
  FindPeak(items, &layout);
  layout.bytes = INT64_MAX;
  std::vector<int32_t> order(items.size());
  for (const Before before : kOrders) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return before(items[static_cast<size_t>(a)], items[static_cast<size_t>(b)]);
    });
    Placement placement = Place(items, order, layout.bytes);
    if (placement.bytes < layout.bytes) {
      layout.bytes = placement.bytes;
      layout.offsets = std::move(placement.offsets);
    }
    if (layout.bytes == layout.largest_live_sum) break;
  }
  if (items.empty()) layout.bytes = 0;
  return layout;
}

}  // namespace reprise
