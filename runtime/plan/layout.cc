#include "runtime/plan/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "runtime/plan/board.h"

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

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  size_t top = 0;  // position in the order of an item that ends at `bytes`
  int64_t work = 0;
};

// Places items in the order given, each at the lowest address that is free over its lifetime.
Placement Place(const std::vector<LayoutItem>& items, const std::vector<int32_t>& order, const Instants& instants,
                int64_t give_up_at) {
  Placement result;
  result.offsets.resize(items.size(), 0);
  Board board(&instants);
  for (size_t position = 0; position < order.size(); ++position) {
    const auto index = static_cast<size_t>(order[position]);
    const int64_t size = AlignedBytes(items[index]);
    const int64_t offset = board.LowestFree(size, index);
    result.offsets[index] = offset;
    if (offset + size > result.bytes) {
      result.bytes = offset + size;
      result.top = position;
    }
    if (result.bytes >= give_up_at) break;
    board.Add(offset, offset + size, index);
  }
  result.work = board.work();
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

// The best layout so far, and how to try for a better one.
class Search {
 public:
  Search(const std::vector<LayoutItem>& items, Layout* layout) : items_(items), instants_(items), layout_(*layout) {
    layout_.bytes = INT64_MAX;
  }

  void Run() {
    std::vector<std::pair<std::vector<int32_t>, size_t>> tried;  // orders, and what sticks out of each
    for (const Before before : kOrders) {
      std::vector<int32_t> order(items_.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return before(items_[static_cast<size_t>(a)], items_[static_cast<size_t>(b)]);
      });
      const size_t top = Try(order);
      if (layout_.bytes == layout_.largest_live_sum) return;
      tried.emplace_back(std::move(order), top);
    }
    for (auto& [order, top] : tried) Repair(&order, top);
  }

 private:
  // Whichever item sticks out at the top was placed too late: it moves to the front of the order, again and again
  // ("squeaky wheel" optimisation, Joslin and Clements 1999).
  void Repair(std::vector<int32_t>* order, size_t top) {
    const auto retries = static_cast<int>(std::min<size_t>(kRetries, kRetriedItems / items_.size()));
    for (int i = 0; i < retries && !GoodEnough() && top > 0; ++i) {
      const auto first = order->begin();
      std::rotate(first, first + static_cast<int64_t>(top), first + static_cast<int64_t>(top) + 1);
      top = Try(*order);
    }
  }

  // Returns where in the order the item stands that ends highest, or that broke off the try.
  size_t Try(const std::vector<int32_t>& order) {
    Placement placement = Place(items_, order, instants_, layout_.bytes);
    layout_.work += placement.work;
    if (placement.bytes < layout_.bytes) {
      layout_.bytes = placement.bytes;
      layout_.offsets = std::move(placement.offsets);
    }
    return placement.top;
  }

  bool GoodEnough() const { return layout_.bytes - layout_.largest_live_sum <= layout_.largest_live_sum / kSlack; }

  static constexpr size_t kRetries = 32;
  static constexpr size_t kRetriedItems = 10000;  // placed by the retries of one order: bounds the time
  static constexpr int64_t kSlack = 100;          // one percent

  const std::vector<LayoutItem>& items_;
  const Instants instants_;
  Layout& layout_;
};

}  // namespace

Layout AssignAddresses(const std::vector<LayoutItem>& items) {
  Layout layout;
  if (items.empty()) return layout;
  FindPeak(items, &layout);
  Search(items, &layout).Run();
  return layout;
}

}  // namespace reprise
