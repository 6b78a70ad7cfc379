#include "runtime/plan/address_set.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kMostRanges = 128;  // of a chunk

}  // namespace

AddressSet::Place AddressSet::Find(int64_t address) const {
  size_t chunk = 0;
  if (chunks_.size() > 1) {
    const auto found = std::lower_bound(chunks_.begin(), chunks_.end(), address,
                                        [](const Chunk& c, int64_t a) { return c.ranges.back().end < a; });
    chunk = static_cast<size_t>(std::min(found, std::prev(chunks_.end())) - chunks_.begin());
  }
  const std::vector<Range>& ranges = chunks_[chunk].ranges;
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), address, [](const Range& r, int64_t a) { return r.end < a; });
  return {chunk, static_cast<size_t>(found - ranges.begin())};
}

int64_t AddressSet::LowestFree(int64_t size, int64_t from, int64_t* work) const {
  ++*work;
  if (chunks_.empty()) return from;
  Place place = Find(from + 1);  // the first that ends behind `from`
  int64_t lowest = from;
  for (; place.chunk < chunks_.size(); ++place.chunk, place.range = 0) {
    const Chunk& chunk = chunks_[place.chunk];
    ++*work;
    if (place.range == 0 && chunk.largest_gap < size) {
      lowest = chunk.ranges.back().end;
      continue;
    }
    for (size_t r = place.range; r < chunk.ranges.size(); ++r) {
      ++*work;
      if (chunk.ranges[r].begin - lowest >= size) return lowest;
      lowest = chunk.ranges[r].end;
    }
  }
  return lowest;
}

void AddressSet::Add(int64_t begin, int64_t end, int64_t* work) {
  ++*work;
  if (begin >= end) return;
  if (chunks_.empty()) {
    chunks_.push_back({begin, {{begin, end}}});
    return;
  }
  const Place place = Find(begin);
  const std::vector<Range>& ranges = chunks_[place.chunk].ranges;
  if (place.range == ranges.size() || ranges[place.range].begin > end) {
    *work += static_cast<int64_t>(ranges.size() - place.range);
    Insert(place, {begin, end});
  } else if (begin < ranges[place.range].begin || end > ranges[place.range].end) {
    Grow(place, {begin, end}, work);
  }
}

void AddressSet::Insert(Place place, Range range) {
  std::vector<Range>& ranges = chunks_[place.chunk].ranges;
  ranges.insert(ranges.begin() + static_cast<int64_t>(place.range), range);
  if (ranges.size() > kMostRanges) Split(place.chunk);
  const size_t last = std::min(place.chunk + 2, chunks_.size() - 1);
  for (size_t chunk = place.chunk; chunk <= last; ++chunk) MeasureGaps(chunk);
}

// Joins `range` to the one at `place`, and to those behind that it reaches.
void AddressSet::Grow(Place place, Range range, int64_t* work) {
  Chunk& chunk = chunks_[place.chunk];
  Range& grown = chunk.ranges[place.range];
  grown = {std::min(grown.begin, range.begin), std::max(grown.end, range.end)};
  const auto reaches = [&](const Range& other) {
    ++*work;
    if (other.begin > grown.end) return false;
    grown.end = std::max(grown.end, other.end);
    return true;
  };
  size_t next = place.range + 1;
  while (next < chunk.ranges.size() && reaches(chunk.ranges[next])) ++next;
  const bool reaches_on = next == chunk.ranges.size();
  *work += static_cast<int64_t>(chunk.ranges.size() - next);
  chunk.ranges.erase(chunk.ranges.begin() + static_cast<int64_t>(place.range) + 1,
                     chunk.ranges.begin() + static_cast<int64_t>(next));
  const size_t behind = place.chunk + 1;
  if (reaches_on && behind < chunks_.size()) {
    size_t last = behind;  // the chunk with the first range that is not reached
    for (; last < chunks_.size(); ++last) {
      std::vector<Range>& ranges = chunks_[last].ranges;
      size_t r = 0;
      while (r < ranges.size() && reaches(ranges[r])) ++r;
      ranges.erase(ranges.begin(), ranges.begin() + static_cast<int64_t>(r));
      if (!ranges.empty()) break;
    }
    // Neither `chunk` nor `grown` moves: they stand before what is erased.
    chunks_.erase(chunks_.begin() + static_cast<int64_t>(behind), chunks_.begin() + static_cast<int64_t>(last));
  }
  MeasureGaps(place.chunk);
  if (behind < chunks_.size()) MeasureGaps(behind);
}

void AddressSet::Split(size_t chunk) {
  Chunk upper;
  std::vector<Range>& ranges = chunks_[chunk].ranges;
  const auto middle = ranges.begin() + static_cast<int64_t>(ranges.size() / 2);
  upper.ranges.assign(middle, ranges.end());
  ranges.erase(middle, ranges.end());
  chunks_.insert(chunks_.begin() + static_cast<int64_t>(chunk) + 1, std::move(upper));
}

void AddressSet::MeasureGaps(size_t chunk) {
  int64_t end = chunk == 0 ? 0 : chunks_[chunk - 1].ranges.back().end;
  int64_t largest = 0;
  for (const Range& range : chunks_[chunk].ranges) {
    largest = std::max(largest, range.begin - end);
    end = range.end;
  }
  chunks_[chunk].largest_gap = largest;
}

}  // namespace reprise
