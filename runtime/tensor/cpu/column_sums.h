// Sums over rows, for the gradients of biases and gains: each chunk of rows has a partial sum, and the partial sums are
// added in the order of chunks. Chunks depend on the number of rows only, so the result does not depend on threads.
//
//   ColumnSums sums(rows, columns);                                  // scratch: sums.scratch_bytes()
//   ParallelFor(threads, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
//     for (int64_t chunk = begin; chunk < end; ++chunk) ... add rows [sums.FirstRow(chunk), sums.FirstRow(chunk + 1))
//                                                           into sums.Partial(scratch, chunk), which you set to 0
//   });
//   sums.Combine(threads, scratch, result, accumulate);
#ifndef REPRISE_RUNTIME_TENSOR_CPU_COLUMN_SUMS_H_
#define REPRISE_RUNTIME_TENSOR_CPU_COLUMN_SUMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace reprise {

class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        chunk_rows_(std::max(kLeastRows, (rows + kMostChunks - 1) / kMostChunks)),
        chunks_((rows + chunk_rows_ - 1) / chunk_rows_) {}

  int64_t chunks() const { return chunks_; }
  int64_t FirstRow(int64_t chunk) const { return std::min(rows_, chunk * chunk_rows_); }
  int64_t scratch_bytes() const { return chunks_ * stride() * static_cast<int64_t>(sizeof(float)); }
  float* Partial(std::byte* scratch, int64_t chunk) const {
    return reinterpret_cast<float*>(scratch) + chunk * stride();
  }

  // result[c] = sum, or result[c] + sum.
  void Combine(int threads, std::byte* scratch, float* result, bool accumulate) const;

 private:
  static constexpr int64_t kLeastRows = 16;
  static constexpr int64_t kMostChunks = 64;

  int64_t stride() const { return RoundUp(columns_, 16); }  // whole cache lines: no two threads write to one

  int64_t rows_;
  int64_t columns_;
  int64_t chunk_rows_;
  int64_t chunks_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_COLUMN_SUMS_H_
