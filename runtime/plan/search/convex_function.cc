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

// Beyond the larger number of points a function is thinned to the smaller: its lines become fewer, by leaving out those
// with which least is lost. That bounds the time of a union, and loses about 1 / points^2.
constexpr size_t kManyPoints = 640;
constexpr size_t kEnoughPoints = 512;

// Where the lines a-b and c-d meet, between b and c: with this point instead of b and c a function is lower, and one
// line shorter.
Point Meet(const Point& a, const Point& b, const Point& c, const Point& d) {
  const double before = (b.y - a.y) / static_cast<double>(b.x - a.x);
  const double behind = (d.y - c.y) / static_cast<double>(d.x - c.x);
  const auto width = static_cast<double>(c.x - b.x);
  double shift = (c.y - b.y - behind * width) / (before - behind);  // from b
  if (!(shift >= 0)) shift = 0;
  const int64_t x = std::min(b.x + static_cast<int64_t>(shift), c.x);
  return {x, std::min(b.y + before * static_cast<double>(x - b.x), c.y - behind * static_cast<double>(c.x - x))};
}

// Leaves out about every second of the lines that cost less than `threshold`.
void ThinOnce(size_t enough, std::vector<Point>* points) {
  const std::vector<Point>& p = *points;
  std::vector<double> lost(p.size(), 0);  // of the line from this point to the next
  std::vector<double> sorted;
  for (size_t i = 1; i + 2 < p.size(); ++i) {
    const Point meet = Meet(p[i - 1], p[i], p[i + 1], p[i + 2]);
    lost[i] = Between(p[i], p[i + 1], meet.x) - meet.y;
    sorted.push_back(lost[i]);
  }
  const size_t surplus = std::min(p.size() - enough, sorted.size() / 2);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(surplus) - 1, sorted.end());
  const double threshold = sorted[surplus - 1];
  std::vector<Point> kept = {p[0]};
  size_t left_out = 0;
  for (size_t i = 1; i < p.size(); ++i) {
    const bool inner = i + 2 < p.size();
    if (inner && lost[i] <= threshold && left_out < surplus) {
      kept.push_back(Meet(p[i - 1], p[i], p[i + 1], p[i + 2]));
      ++left_out;
      i += 1;  // the next line now begins at the new point; it stays
      if (i + 1 < p.size()) kept.push_back(p[++i]);
    } else {
      kept.push_back(p[i]);
    }
  }
  *points = std::move(kept);
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

double ConvexFunction::LargestSlope() const {
  if (points_.size() < 2) return 0;
  const Point& last = points_.back();
  const Point& before = points_[points_.size() - 2];
  return (last.y - before.y) / static_cast<double>(last.x - before.x);
}

void ConvexUnion::Append(const Point& point) {
  if (!merged_.empty() && merged_.back().x == point.x) {
    if (merged_.back().y <= point.y) return;
    merged_.pop_back();
  }
  while (merged_.size() >= 2 && Above(merged_[merged_.size() - 2], merged_.back(), point)) merged_.pop_back();
  merged_.push_back(point);
}

// Whether a piece is lower than the union so far somewhere. A line of it lies above where both its ends do.
bool ConvexUnion::Helps(const std::vector<Point>& piece) const {
  const ConvexFunction& old = result_;
  if (old.empty() || piece.back().x > old.last() || piece.front().x < old.points_.front().x) return true;
  size_t hint = 0;
  return std::any_of(piece.begin(), piece.end(), [&](const Point& point) { return point.y < old.At(point.x, &hint); });
}

ConvexFunction ConvexUnion::Take() {
  std::vector<Point>& points = result_.points_;
  if (points.size() > kManyPoints) {
    for (int i = 0; i < 3 && points.size() > kEnoughPoints; ++i) ThinOnce(kEnoughPoints, &points);
    // Rounded places may have bent it the wrong way.
    std::vector<Point> thinned = std::move(points);
    merged_.clear();
    for (const Point& point : thinned) Append(point);
    points = merged_;
  }
  return std::move(result_);
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
  if (!Helps(added_)) return;
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
