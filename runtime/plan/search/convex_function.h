// Convex, piecewise linear functions of bytes: the largest that lie below all of several others.
//
//   ConvexUnion u(0);                        // for arguments from 0
//   u.Add(f, {.shift = 100, .add = 7, .limit = 5000});   // 7 + f(x + 100), for x <= 5000
//   const ConvexFunction g = u.Take();
//   g.At(250);
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_CONVEX_FUNCTION_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_CONVEX_FUNCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

// Linear between its points, infinite outside of them.
class ConvexFunction {
 public:
  struct Point {
    int64_t x = 0;
    double y = 0;
  };

  ConvexFunction() = default;                                 // infinite everywhere
  ConvexFunction(int64_t first, int64_t last, double value);  // constant

  bool empty() const { return points_.empty(); }
  int64_t last() const { return points_.back().x; }
  // Within first point .. last point. `hint`: where the search begins; for rising arguments pass the same again.
  double At(int64_t x, size_t* hint) const;
  double At(int64_t x) const;
  double LargestSlope() const;

 private:
  friend class ConvexUnion;
  std::vector<Point> points_;  // by rising x
};

class ConvexUnion {
 public:
  struct Change {
    int64_t shift = 0;
    double add = 0;
    int64_t limit = 0;
  };

  explicit ConvexUnion(int64_t first) : first_(first) {}
  void Add(const ConvexFunction& f, const Change& change);
  // With many points it is made a little lower and has fewer.
  ConvexFunction Take();

 private:
  void Append(const ConvexFunction::Point& point);
  bool Helps(const std::vector<ConvexFunction::Point>& piece) const;

  int64_t first_;
  ConvexFunction result_;
  std::vector<ConvexFunction::Point> added_;   // kept for their memory
  std::vector<ConvexFunction::Point> merged_;  // likewise
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_CONVEX_FUNCTION_H_
