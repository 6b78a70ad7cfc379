#include "runtime/plan/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

// What is placed, in order of address, apart for each slice of time, so that placing an item looks at its neighbours in
// time only. Slices come in sizes, each four times the one before, and overlap by half: an item that lives no longer
// than half a slice lies within one.
class Board {
 public:
  struct Entry {
    int64_t begin, end, first, last;
  };

  Board(int64_t ticks, size_t items) {
    const int64_t finest = std::max<int64_t>(static_cast<int64_t>(items) / kItemsASlice, 1);
    for (int64_t half = ticks / finest / 2 + 1;; half *= 4) {
      levels_.push_back({half, std::vector<std::vector<Entry>>(static_cast<size_t>(ticks / half + 1))});
      if (half > ticks) break;
    }
  }

  void Add(const Entry& entry) {
    for (Level& level : levels_) {
      // Slice s holds the ticks [s - 1, s + 1) * half.
      const auto first = static_cast<size_t>(entry.first / level.half);
      const size_t last = std::min(static_cast<size_t>(entry.last / level.half) + 1, level.slices.size() - 1);
      for (size_t s = first; s <= last; ++s) Insert(entry, &level.slices[s]);
    }
  }

  // The lowest address from which `size` bytes are free over all of [first, last].
  int64_t LowestFree(int64_t size, int64_t first, int64_t last) const {
    int64_t offset = 0;
    for (const Entry& entry : Around(first, last)) {
      if (entry.begin >= offset + size) break;
      if (entry.end > offset && entry.first <= last && first <= entry.last) offset = entry.end;
    }
    return offset;
  }

 private:
  static constexpr int64_t kItemsASlice = 64;

  struct Level {
    int64_t half = 1;  // ticks
    std::vector<std::vector<Entry>> slices;
  };

  // The entries of the shortest slice that holds all of [first, last].
  const std::vector<Entry>& Around(int64_t first, int64_t last) const {
    for (const Level& level : levels_) {
      const int64_t s = last / level.half;
      if (s - first / level.half <= 1) return level.slices[static_cast<size_t>(s)];
    }
    return levels_.back().slices.front();  // not reached: the longest slice holds every tick
  }

  static void Insert(const Entry& entry, std::vector<Entry>* entries) {
    entries->insert(std::upper_bound(entries->begin(), entries->end(), entry,
                                     [](const Entry& a, const Entry& b) { return a.begin < b.begin; }),
                    entry);
  }

  std::vector<Level> levels_;
};

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  size_t top = 0;  // position in the order of an item that ends at `bytes`
};

// Places items in the order given, each at the lowest address that is free over its lifetime.
Placement Place(const std::vector<LayoutItem>& items, const std::vector<int32_t>& order, int64_t ticks,
                int64_t give_up_at) {
  Placement result{std::vector<int64_t>(items.size(), 0), 0, 0};
  Board board(ticks, items.size());
  for (size_t position = 0; position < order.size(); ++position) {
    const auto index = static_cast<size_t>(order[position]);
    const LayoutItem& item = items[index];
    const int64_t size = AlignedBytes(item);
    const int64_t offset = board.LowestFree(size, item.first, item.last);
    result.offsets[index] = offset;
    if (offset + size > result.bytes) {
      result.bytes = offset + size;
      result.top = position;
    }
    if (result.bytes >= give_up_at) return result;
    board.Add({offset, offset + size, item.first, item.last});
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

// The best layout so far, and how to try for a better one.
class Search {
 public:
  Search(const std::vector<LayoutItem>& items, Layout* layout) : items_(items), layout_(*layout) {
    for (const LayoutItem& item : items) ticks_ = std::max(ticks_, item.last + 1);
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
    Placement placement = Place(items_, order, ticks_, layout_.bytes);
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
  Layout& layout_;
  int64_t ticks_ = 0;
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
