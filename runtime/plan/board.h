// Board: what is placed so far in time and memory, and the lowest free place for one more.
//
//   Instants instants(items);
//   Board board(&instants);
//   const int64_t offset = board.LowestFree(size, 0);   // of item 0, over all of its lifetime
//   board.Add(offset, offset + size, 0);
//
// Time is cut into leaves with a few items' beginnings and ends each, four leaves make a branch, four branches a larger
// one, and so on. Every node of that tree knows which bytes are taken all through it, and which at some time within it.
// An item lives in few nodes that cover its lifetime exactly, so both calls look at a logarithmic number of nodes
// whatever else is alive. Beside that, at most 64 slices of time each know all that is taken throughout them: what
// lives long is packed into few ranges there, where sets that share it out would have holes for each other's items.
#ifndef REPRISE_RUNTIME_PLAN_BOARD_H_
#define REPRISE_RUNTIME_PLAN_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/address_set.h"

namespace reprise {

struct LayoutItem;

// Lifetimes in instants: ticks at which an item begins. Two items live together at some tick exactly if they do at such
// a one.
class Instants {
 public:
  explicit Instants(const std::vector<LayoutItem>& items);

  struct Lifetime {
    int32_t first = 0;  // instants, inclusive
    int32_t last = 0;
    int32_t first_leaf = 0;
    int32_t last_leaf = 0;
    bool covers_first_leaf = false;
    bool covers_last_leaf = false;
  };
  const Lifetime& of(size_t item) const { return lifetimes_[item]; }
  size_t leaves() const { return leaves_; }

 private:
  void CutLeaves(int32_t instants);

  std::vector<Lifetime> lifetimes_;  // by item
  size_t leaves_ = 0;
};

// Keeps `instants`, which has to live longer.
class Board {
 public:
  explicit Board(const Instants* instants);

  // The lowest address from which `size` bytes are free over all of the item's lifetime.
  int64_t LowestFree(int64_t size, size_t item);

  // Takes [begin, end) over all of the item's lifetime.
  void Add(int64_t begin, int64_t end, size_t item);

  // Sets and ranges looked at and moved so far: what the time of both calls grows with.
  int64_t work() const { return work_; }

 private:
  using Lifetime = Instants::Lifetime;

  struct Node {
    AddressSet throughout;  // below slices: taken by items that cover this node, but not the branch that it is part of
    AddressSet somewhere;   // taken by items that begin or end within it, and by those above
  };

  // What begins or ends within a leaf, in order of address.
  struct Entry {
    int64_t begin, end;
    int32_t first, last;
  };

  struct Leaves {
    size_t begin, end;
  };
  static Leaves CoveredLeaves(const Lifetime& lifetime);

  template <typename Covered, typename Reached>
  void Visit(const Lifetime& lifetime, const Covered& covered, const Reached& reached);
  void AddToLeaf(const Entry& entry, size_t leaf);
  int64_t LowestInLeaf(int64_t size, int64_t from, const Lifetime& lifetime, size_t leaf);
  int64_t LowestOfAll(int64_t size, const Lifetime& lifetime);

  const Instants& instants_;
  std::vector<std::vector<Node>> levels_;   // of the tree, leaves first
  std::vector<std::vector<Entry>> leaves_;  // by leaf
  size_t slice_level_ = 0;                  // of the nodes that are slices
  size_t leaves_a_slice_ = 1;
  std::vector<AddressSet> slices_;  // all that is taken throughout each
  int64_t work_ = 0;
  // Of the lifetime at hand: what can stand in the way.
  std::vector<const AddressSet*> sets_;
  std::vector<size_t> lists_;  // leaves
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_BOARD_H_
