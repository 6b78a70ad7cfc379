// C (+)= A B of small row-major float32 tiles that stay in the cache, for one thread. Included once for each target.
//
// Rows of B and C are multiples of the vector's length (pad to kTilePadding). A's element (i, l) stands at
// i * a_row + l * a_column: a transposed A needs no copy, as its elements are broadcast one by one. Six rows by two
// vectors of C stay in registers: 12 independent sums hide the latency of multiply-add.

// Per-target include guard, as Highway asks.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_TILE_PRODUCT_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_TILE_PRODUCT_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_TILE_PRODUCT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

struct TileA {
  const float* data;
  int64_t row;
  int64_t column;
};

template <int kRows, int kVectors>
HWY_INLINE void MultiplyBlock(TileA a, const float* b, int64_t b_stride, int64_t k, float* c, int64_t c_stride,
                              bool accumulate) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> f;
  const auto lanes = static_cast<int64_t>(hn::Lanes(f));
  hn::Vec<decltype(f)> sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = accumulate ? hn::LoadU(f, c + i * c_stride + v * lanes) : hn::Zero(f);
    }
  }
  for (int64_t l = 0; l < k; ++l) {
    hn::Vec<decltype(f)> row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(f, b + l * b_stride + v * lanes);
    const float* column = a.data + l * a.column;
    for (int i = 0; i < kRows; ++i) {
      const auto element = hn::Set(f, column[i * a.row]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(element, row[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], f, c + i * c_stride + v * lanes);
  }
}

template <int kVectors>
HWY_INLINE void MultiplyColumns(int64_t m, TileA a, const float* b, int64_t b_stride, int64_t k, float* c,
                                int64_t c_stride, bool accumulate) {
  int64_t i = 0;
  const auto at = [&](int64_t row) { return TileA{a.data + row * a.row, a.row, a.column}; };
  for (; i + 6 <= m; i += 6) {
    MultiplyBlock<6, kVectors>(at(i), b, b_stride, k, c + i * c_stride, c_stride, accumulate);
  }
  for (; i + 2 <= m; i += 2) {
    MultiplyBlock<2, kVectors>(at(i), b, b_stride, k, c + i * c_stride, c_stride, accumulate);
  }
  if (i < m) MultiplyBlock<1, kVectors>(at(i), b, b_stride, k, c + i * c_stride, c_stride, accumulate);
}

// C is [m, n], n a multiple of the vector's length.
inline void MultiplyTile(int64_t m, int64_t n, int64_t k, TileA a, const float* b, int64_t b_stride, float* c,
                         int64_t c_stride, bool accumulate) {
  const auto lanes = static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>()));
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    MultiplyColumns<2>(m, a, b + j, b_stride, k, c + j, c_stride, accumulate);
  }
  for (; j < n; j += lanes) MultiplyColumns<1>(m, a, b + j, b_stride, k, c + j, c_stride, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
