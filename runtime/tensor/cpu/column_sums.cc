#include "runtime/tensor/cpu/column_sums.h"

#include "runtime/tensor/cpu/parallel.h"

namespace reprise {

void ColumnSums::Combine(int threads, std::byte* scratch, float* result, bool accumulate) const {
  constexpr int64_t kBlock =
      128;  // columns that are summed together: their sums stay in registers or the nearest cache
  ParallelFor(threads, columns_, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      float sums[kBlock] = {};
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const float* partial = Partial(scratch, chunk) + first;
        for (int64_t c = 0; c < count; ++c) sums[c] += partial[c];
      }
      for (int64_t c = 0; c < count; ++c) result[first + c] = accumulate ? result[first + c] + sums[c] : sums[c];
    }
  });
}

}  // namespace reprise
