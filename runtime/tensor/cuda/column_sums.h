// Sums over rows, for the gradients of biases and gains, without atomics: each chunk of rows has a partial sum of every
// column, and the partial sums are added in the order of chunks. Chunks depend on the number of rows only.
//
//   const ColumnSums sums(rows, columns);                         // scratch: sums.scratch_bytes()
//   Launch(sums.shape(), MyPartialSums, sums, ..., partials);     // thread (sums.Column(), chunk BlockY()) writes
//                                                                 // partials[BlockY() * columns + column]
//   sums.Combine(partials, result, accumulate);
//
// Where what is summed stands in memory, Sum starts both.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_COLUMN_SUMS_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_COLUMN_SUMS_H_

#include <cstdint>

#include "base/host_device.h"
#include "runtime/tensor/cuda/cuda_kernel.h"

namespace reprise::cuda {

struct ColumnSums {
  static constexpr int64_t kLeastRows = 16;
  static constexpr int64_t kMostChunks = 64;

  ColumnSums(int64_t rows_of_all, int64_t columns_of_all)
      : rows(rows_of_all),
        columns(columns_of_all),
        chunk_rows(std::max(kLeastRows, (rows + kMostChunks - 1) / kMostChunks)),
        chunks((rows + chunk_rows - 1) / chunk_rows) {}

  int64_t scratch_bytes() const { return chunks * columns * static_cast<int64_t>(sizeof(float)); }
  LaunchShape shape() const {
    return {.blocks = (columns + ThreadsFor(columns) - 1) / ThreadsFor(columns),
            .blocks_y = chunks,
            .threads = ThreadsFor(columns)};
  }
  REPRISE_HOST_DEVICE int64_t FirstRow(int64_t chunk) const {
    return chunk * chunk_rows < rows ? chunk * chunk_rows : rows;
  }

  // Starts: result[c] = sum, or result[c] + sum.
  void Combine(const float* partials, float* result, bool accumulate) const;

  // Starts: result[c] = the sum of x[row * stride + c], or result[c] + it.
  template <typename T>
  void Sum(const T* x, int64_t stride, float* partials, float* result, bool accumulate) const;

  int64_t rows;
  int64_t columns;
  int64_t chunk_rows;
  int64_t chunks;
};

template <typename T>
REPRISE_KERNEL void PartialSums(ColumnSums sums, const T* x, int64_t stride, float* partials) {
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  float sum = 0;
  for (int64_t row = sums.FirstRow(BlockY()); row < sums.FirstRow(BlockY() + 1); ++row) {
    sum += Widened(x[row * stride + c]);
  }
  partials[BlockY() * sums.columns + c] = sum;
}

template <typename T>
void ColumnSums::Sum(const T* x, int64_t stride, float* partials, float* result, bool accumulate) const {
  Launch(shape(), PartialSums<T>, *this, x, stride, partials);
  Combine(partials, result, accumulate);
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_COLUMN_SUMS_H_
