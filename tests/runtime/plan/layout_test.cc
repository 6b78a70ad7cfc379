// Addresses of items with known lifetimes: valid always, as small as brute force finds on tiny instances up to the
// bound, and exactly the live bytes where lifetimes are nested.
#include "runtime/plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/bytes.h"

namespace reprise {
namespace {

int64_t Aligned(const LayoutItem& item) { return RoundUp(item.bytes, kItemAlignment); }

bool LiveTogether(const LayoutItem& a, const LayoutItem& b) { return a.first <= b.last && b.first <= a.last; }

// The largest sum of live bytes, tick by tick.
int64_t LiveSum(const std::vector<LayoutItem>& items, int64_t ticks, int64_t* peak_tick) {
  int64_t largest = 0;
  for (int64_t tick = 0; tick < ticks; ++tick) {
    int64_t live = 0;
    for (const LayoutItem& item : items) live += item.first <= tick && tick <= item.last ? Aligned(item) : 0;
    if (live > largest) {
      largest = live;
      *peak_tick = tick;
    }
  }
  return largest;
}

void ExpectValid(const std::vector<LayoutItem>& items, const Layout& layout, int64_t ticks) {
  ASSERT_EQ(layout.offsets.size(), items.size());
  int64_t highest = 0;
  for (size_t a = 0; a < items.size(); ++a) {
    EXPECT_GE(layout.offsets[a], 0);
    EXPECT_EQ(layout.offsets[a] % kItemAlignment, 0);
    highest = std::max(highest, layout.offsets[a] + Aligned(items[a]));
    for (size_t b = a + 1; b < items.size(); ++b) {
      const bool apart = layout.offsets[a] + Aligned(items[a]) <= layout.offsets[b] ||
                         layout.offsets[b] + Aligned(items[b]) <= layout.offsets[a];
      EXPECT_TRUE(apart || !LiveTogether(items[a], items[b])) << "items " << a << " and " << b;
    }
  }
  EXPECT_EQ(layout.bytes, highest);
  int64_t peak_tick = 0;
  EXPECT_EQ(layout.largest_live_sum, LiveSum(items, ticks, &peak_tick));
  EXPECT_EQ(layout.peak_tick, peak_tick);
  EXPECT_GE(layout.bytes, layout.largest_live_sum);
}

// The smallest arena: over all orders, each item as low as it goes. Every optimum is found by some order.
int64_t BruteForce(const std::vector<LayoutItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offsets(items.size(), -1);
    int64_t bytes = 0;
    for (const size_t i : order) {
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t other = 0; other < items.size(); ++other) {
          if (offsets[other] < 0 || !LiveTogether(items[i], items[other])) continue;
          if (offset < offsets[other] + Aligned(items[other]) && offsets[other] < offset + Aligned(items[i])) {
            offset = offsets[other] + Aligned(items[other]);
            moved = true;
          }
        }
      }
      offsets[i] = offset;
      bytes = std::max(bytes, offset + Aligned(items[i]));
    }
    best = std::min(best, bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<LayoutItem> RandomItems(std::mt19937& random, size_t count, int64_t ticks, int64_t units) {
  std::vector<LayoutItem> items;
  for (size_t i = 0; i < count; ++i) {
    const auto first = static_cast<int64_t>(random() % static_cast<uint32_t>(ticks));
    const auto last = first + static_cast<int64_t>(random() % static_cast<uint32_t>(ticks - first));
    const auto bytes = static_cast<int64_t>(1 + random() % static_cast<uint32_t>(units * kItemAlignment));
    items.push_back({bytes, first, last});
  }
  return items;
}

TEST(Layout, NoItemsNeedNoBytes) {
  const Layout layout = AssignAddresses({});
  EXPECT_EQ(layout.bytes, 0);
  EXPECT_EQ(layout.largest_live_sum, 0);
}

TEST(Layout, AlignmentIsPartOfASize) {
  const Layout layout = AssignAddresses({{1, 0, 0}, {257, 0, 0}, {0, 0, 0}});
  EXPECT_EQ(layout.bytes, 3 * kItemAlignment);
  EXPECT_EQ(layout.largest_live_sum, 3 * kItemAlignment);
}

TEST(Layout, ItemsApartInTimeShareAnAddress) {
  const Layout layout = AssignAddresses({{1024, 0, 3}, {1024, 4, 9}});
  EXPECT_EQ(layout.bytes, 1024);
  EXPECT_EQ(layout.offsets[0], layout.offsets[1]);
}

TEST(Layout, NestedLifetimesTakeTheLiveBytes) {
  std::vector<LayoutItem> items;
  for (int64_t i = 0; i < 40; ++i) items.push_back({(1 + i * 7919 % 13) * kItemAlignment, i, 100 - i});
  const Layout layout = AssignAddresses(items);
  ExpectValid(items, layout, 101);
  EXPECT_EQ(layout.bytes, layout.largest_live_sum);
}

TEST(Layout, RandomItemsNeverOverlap) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    const std::vector<LayoutItem> items = RandomItems(random, 1 + random() % 60, 30, 9);
    ExpectValid(items, AssignAddresses(items), 30);
  }
}

TEST(Layout, TinyInstancesAreNearTheOptimum) {
  std::mt19937 random(6);
  for (int i = 0; i < 120; ++i) {
    const std::vector<LayoutItem> items = RandomItems(random, 6, 8, 6);
    const Layout layout = AssignAddresses(items);
    const int64_t best = BruteForce(items);
    EXPECT_GE(layout.bytes, best);
    EXPECT_LE(layout.bytes, best + best / 10) << "instance " << i;
  }
}

TEST(Layout, IsTheSameEveryTime) {
  std::mt19937 random(7);
  const std::vector<LayoutItem> items = RandomItems(random, 200, 80, 20);
  EXPECT_EQ(AssignAddresses(items).offsets, AssignAddresses(items).offsets);
}

// A step of `layers` layers that keep everything: two items a layer from its forward to its backward, a gradient from
// there to the end, short ones in both.
std::vector<LayoutItem> DeepStep(int64_t layers) {
  std::vector<LayoutItem> items;
  const int64_t end = 40 * layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t forward = 20 * layer;
    const int64_t backward = end - 20 * (layer + 1);
    items.push_back({8 * kItemAlignment, forward, backward + 15});
    items.push_back({3 * kItemAlignment, forward + 4, backward + 9});
    items.push_back({11 * kItemAlignment, backward + 2, end});
    for (int64_t k = 0; k < 18; ++k) {
      const int64_t bytes = (1 + k * 7 % 5) * kItemAlignment;
      items.push_back({bytes, forward + k, forward + k + 1 + k % 3});
      items.push_back({bytes, backward + k, backward + k + 1 + k % 3});
    }
  }
  return items;
}

// Sixteen times the layers, all of them alive together in the middle.
TEST(Layout, WorkGrowsLittleFasterThanDepth) {
  const Layout small = AssignAddresses(DeepStep(100));
  const Layout large = AssignAddresses(DeepStep(1600));
  EXPECT_GT(small.work, 100 * 39);             // at least once an item
  EXPECT_LT(large.work, 16 * 3 * small.work);  // as it grows with the square: 16 * 16
  EXPECT_LE(large.bytes, large.largest_live_sum + large.largest_live_sum / 50);
}

}  // namespace
}  // namespace reprise
