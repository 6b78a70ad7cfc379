// AddressSet: bytes that are taken, as ranges of addresses. Ranges that touch become one, so that what is packed stays
// short to write down.
//
//   AddressSet taken;
//   taken.Add(0, 512, &work);
//   taken.Add(1024, 2048, &work);
//   taken.LowestFree(512, 0, &work);    // 512
//   taken.LowestFree(1024, 0, &work);   // 2048
//
// Both take logarithmic time, save for a list with one entry for about a hundred ranges.
#ifndef REPRISE_RUNTIME_PLAN_ADDRESS_SET_H_
#define REPRISE_RUNTIME_PLAN_ADDRESS_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

class AddressSet {
 public:
  bool empty() const { return chunks_.empty(); }

  // Takes [begin, end); parts of it may be taken already. Adds the ranges looked at and moved to `work`.
  void Add(int64_t begin, int64_t end, int64_t* work);

  // The lowest address from `from` on at which `size` bytes are free. Adds the ranges looked at to `work`.
  int64_t LowestFree(int64_t size, int64_t from, int64_t* work) const;

 private:
  struct Range {
    int64_t begin, end;
  };

  // Ranges next to each other, never none.
  struct Chunk {
    int64_t largest_gap = 0;  // of those before each of its ranges
    std::vector<Range> ranges;
  };

  // The first range that ends at or behind `address`; the end of the last chunk where none does.
  struct Place {
    size_t chunk, range;
  };
  Place Find(int64_t address) const;

  void Insert(Place place, Range range);
  void Grow(Place place, Range range, int64_t* work);
  void Split(size_t chunk);
  void MeasureGaps(size_t chunk);

  std::vector<Chunk> chunks_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_ADDRESS_SET_H_
