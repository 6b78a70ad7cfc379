#include "runtime/plan/board.h"

#include <algorithm>

#include "runtime/plan/layout.h"

namespace reprise {
namespace {

constexpr size_t kFanout = 4;
constexpr size_t kMostSlices = 64;
constexpr int32_t kMostEnds = 32;  // beginnings and ends in a leaf of several instants

size_t RoundedUp(size_t nodes) { return (nodes + kFanout - 1) / kFanout; }

}  // namespace

Instants::Instants(const std::vector<LayoutItem>& items) : lifetimes_(items.size()) {
  std::vector<int64_t> ticks;
  ticks.reserve(items.size());
  for (const LayoutItem& item : items) ticks.push_back(item.first);
  std::sort(ticks.begin(), ticks.end());
  ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto first = std::lower_bound(ticks.begin(), ticks.end(), items[i].first);
    const auto behind = std::upper_bound(first, ticks.end(), items[i].last);
    lifetimes_[i].first = static_cast<int32_t>(first - ticks.begin());
    lifetimes_[i].last = std::max(static_cast<int32_t>(behind - ticks.begin()) - 1, lifetimes_[i].first);
  }
  CutLeaves(static_cast<int32_t>(ticks.size()));
}

// However many items begin or end at one instant: what does not cover its leaf is kept in a short list.
void Instants::CutLeaves(int32_t instants) {
  std::vector<int32_t> ends(static_cast<size_t>(instants), 0);
  for (const Lifetime& lifetime : lifetimes_) {
    ++ends[static_cast<size_t>(lifetime.first)];
    ++ends[static_cast<size_t>(lifetime.last)];
  }
  std::vector<int32_t> leaf_of;
  std::vector<int32_t> first_of;  // by leaf
  int32_t count = 0;
  for (int32_t i = 0; i < instants; ++i) {
    if (first_of.empty() || count + ends[static_cast<size_t>(i)] > kMostEnds) {
      first_of.push_back(i);
      count = 0;
    }
    count += ends[static_cast<size_t>(i)];
    leaf_of.push_back(static_cast<int32_t>(first_of.size()) - 1);
  }
  leaves_ = first_of.size();
  first_of.push_back(instants);
  for (Lifetime& lifetime : lifetimes_) {
    lifetime.first_leaf = leaf_of[static_cast<size_t>(lifetime.first)];
    lifetime.last_leaf = leaf_of[static_cast<size_t>(lifetime.last)];
    const bool from_start = lifetime.first == first_of[static_cast<size_t>(lifetime.first_leaf)];
    const bool to_end = lifetime.last + 1 == first_of[static_cast<size_t>(lifetime.last_leaf) + 1];
    const bool same = lifetime.first_leaf == lifetime.last_leaf;
    lifetime.covers_first_leaf = from_start && (to_end || !same);
    lifetime.covers_last_leaf = to_end && (from_start || !same);
  }
}

Board::Board(const Instants* instants) : instants_(*instants), leaves_(instants->leaves()) {
  for (size_t nodes = leaves_.size();; nodes = RoundedUp(nodes)) {
    levels_.emplace_back(nodes);
    if (nodes <= 1) break;
  }
  while (levels_[slice_level_].size() > kMostSlices) {
    ++slice_level_;
    leaves_a_slice_ *= kFanout;
  }
  slices_.resize(levels_[slice_level_].size());
}

// The leaves that the lifetime covers, of those that it is in.
Board::Leaves Board::CoveredLeaves(const Lifetime& lifetime) {
  return {static_cast<size_t>(lifetime.first_leaf) + (lifetime.covers_first_leaf ? 0 : 1),
          static_cast<size_t>(lifetime.last_leaf) + (lifetime.covers_last_leaf ? 1 : 0)};
}

// Calls covered(node, level) for the largest nodes within the lifetime, which make it up together with parts of at most
// two leaves, and reached(node, level, index) for every node that it is in without covering it.
template <typename Covered, typename Reached>
void Board::Visit(const Lifetime& lifetime, const Covered& covered, const Reached& reached) {
  auto first = static_cast<size_t>(lifetime.first_leaf);
  auto last = static_cast<size_t>(lifetime.last_leaf);
  auto [begin, end] = CoveredLeaves(lifetime);  // then branches
  for (size_t level = 0; level < levels_.size(); ++level) {
    std::vector<Node>& nodes = levels_[level];
    if (first < begin || first >= end) reached(&nodes[first], level, first);
    if (last != first && (last < begin || last >= end)) reached(&nodes[last], level, last);
    size_t above_begin = RoundedUp(begin);
    size_t above_end = end / kFanout;
    if (above_begin >= above_end || level + 1 == levels_.size()) {
      for (size_t n = begin; n < end; ++n) covered(&nodes[n], level);
      above_begin = above_end = 0;
    } else {
      for (size_t n = begin; n < above_begin * kFanout; ++n) covered(&nodes[n], level);
      for (size_t n = above_end * kFanout; n < end; ++n) covered(&nodes[n], level);
    }
    begin = above_begin;
    end = above_end;
    first /= kFanout;
    last /= kFanout;
  }
}

void Board::Add(int64_t begin, int64_t end, size_t item) {
  const Lifetime& lifetime = instants_.of(item);
  Visit(
      lifetime,
      [&](Node* node, size_t level) {
        if (level < slice_level_) node->throughout.Add(begin, end, &work_);
        node->somewhere.Add(begin, end, &work_);
      },
      [&](Node* node, size_t level, size_t index) {
        node->somewhere.Add(begin, end, &work_);
        if (level == 0) AddToLeaf({begin, end, lifetime.first, lifetime.last}, index);
      });
  const Leaves leaves = CoveredLeaves(lifetime);
  const size_t slices_end = leaves.end / leaves_a_slice_;
  for (size_t s = (leaves.begin + leaves_a_slice_ - 1) / leaves_a_slice_; s < slices_end; ++s) {
    slices_[s].Add(begin, end, &work_);
  }
}

void Board::AddToLeaf(const Entry& entry, size_t leaf) {
  std::vector<Entry>& entries = leaves_[leaf];
  const auto place = std::upper_bound(entries.begin(), entries.end(), entry,
                                      [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  work_ += entries.end() - place;
  entries.insert(place, entry);
}

int64_t Board::LowestFree(int64_t size, size_t item) {
  const Lifetime& lifetime = instants_.of(item);
  sets_.clear();
  lists_.clear();
  const auto in_the_way = [this](const AddressSet& set) {
    if (!set.empty()) sets_.push_back(&set);
  };
  Visit(
      lifetime, [&](Node* node, size_t) { in_the_way(node->somewhere); },
      [&](Node* node, size_t level, size_t index) {
        if (level < slice_level_) in_the_way(node->throughout);
        if (level == 0) lists_.push_back(index);
      });
  // Who covers the branch that one of those nodes is part of covers the slice of the branch's beginning or end.
  const size_t first_slice = static_cast<size_t>(lifetime.first_leaf) / leaves_a_slice_;
  const size_t last_slice = static_cast<size_t>(lifetime.last_leaf) / leaves_a_slice_;
  in_the_way(slices_[first_slice]);
  if (last_slice != first_slice) in_the_way(slices_[last_slice]);
  return LowestOfAll(size, lifetime);
}

// Free in one set after the other, until in all of them: an address moves up only past bytes that are taken.
int64_t Board::LowestOfAll(int64_t size, const Lifetime& lifetime) {
  int64_t lowest = 0;
  for (int64_t before = -1; before != lowest;) {
    before = lowest;
    // Large nodes are found last. Most is taken there.
    for (size_t s = sets_.size(); s-- > 0;) lowest = sets_[s]->LowestFree(size, lowest, &work_);
    for (const size_t leaf : lists_) lowest = LowestInLeaf(size, lowest, lifetime, leaf);
  }
  return lowest;
}

int64_t Board::LowestInLeaf(int64_t size, int64_t from, const Lifetime& lifetime, size_t leaf) {
  int64_t lowest = from;
  for (const Entry& entry : leaves_[leaf]) {
    ++work_;
    if (entry.begin >= lowest + size) break;
    const bool together = entry.first <= lifetime.last && lifetime.first <= entry.last;
    if (entry.end > lowest && together) lowest = entry.end;
  }
  return lowest;
}

}  // namespace reprise
