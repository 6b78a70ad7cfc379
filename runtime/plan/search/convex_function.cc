#include "runtime/plan/search/convex_function.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

using Point = ConvexFunction::Point;

double Between(const Point& a, const Point& b, int64_t x) {
  if (a.x == b.x) return std::min(a.y, b.y);
  return a.y + (b.y - a.y) * (static_cast<double>(x - a.x) / static_cast<double>(b.x - a.x));
}

// Whether b lies on or above the line from a to c.
bool Above(const Point& a, const Point& b, const Point& c) {
  return (b.y - a.y) * static_cast<double>(c.x - a.x) >= (c.y - a.y) * static_cast<double>(b.x - a.x);
}

}  // namespace

ConvexFunction::ConvexFunction(int64_t first, int64_t last, double value) {
  if (first > last) return;
  points_.push_back({first, value});
  if (last > first) points_.push_back({last, value});
}

double ConvexFunction::At(int64_t x, size_t* hint) const {
  size_t i = *hint;
  while (i + 1 < points_.size() && points_[i + 1].x < x) ++i;
  *hint = i;
  return i + 1 < points_.size() ? Between(points_[i], points_[i + 1], x) : points_[i].y;
}

double ConvexFunction::At(int64_t x) const {
  const auto next = std::upper_bound(points_.begin(), points_.end(), x,
                                     [](int64_t value, const Point& point) { return value < point.x; });
  size_t hint = next == points_.begin() ? 0 : static_cast<size_t>(next - points_.begin()) - 1;
  return At(x, &hint);
}

void ConvexUnion::Append(const Point& point) {
  if (!merged_.empty() && merged_.back().x == point.x) {
    if (merged_.back().y <= point.y) return;
    merged_.pop_back();
  }
  while (merged_.size() >= 2 && Above(merged_[merged_.size() - 2], merged_.back(), point)) merged_.pop_back();
  merged_.push_back(point);
}

void ConvexUnion::Add(const ConvexFunction& f, const Change& change) {
  if (f.empty()) return;
  const int64_t last = std::min(change.limit, f.last() - change.shift);
  if (last < first_) return;
  const std::vector<Point>& points = f.points_;
  const auto shifted = [&](const Point& p) { return Point{p.x - change.shift, p.y + change.add}; };
  // The piece from first_ to last, its ends cut exactly.
  added_.clear();
  auto next = std::upper_bound(points.begin(), points.end(), first_ + change.shift,
                               [](int64_t x, const Point& point) { return x < point.x; });
  if (next == points.begin()) {
    added_.push_back(shifted(*next++));
  } else {
    const Point before = shifted(*std::prev(next));
    added_.push_back({first_, next == points.end() ? before.y : Between(before, shifted(*next), first_)});
  }
  for (; next != points.end() && next->x - change.shift <= last; ++next) added_.push_back(shifted(*next));
  if (added_.back().x < last && next != points.end()) {
    added_.push_back({last, Between(shifted(*std::prev(next)), shifted(*next), last)});
  }
  std::vector<Point>& old = result_.points_;
  merged_.clear();
  size_t i = 0;
  for (const Point& point : added_) {
    while (i < old.size() && old[i].x <= point.x) Append(old[i++]);
    Append(point);
  }
  while (i < old.size()) Append(old[i++]);
  std::swap(old, merged_);
}

}  // namespace reprise
