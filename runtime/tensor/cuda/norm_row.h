// What layer and RMS norm share: a block a row of x, or of x + residual, and the gradient of x.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_NORM_ROW_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_NORM_ROW_H_

#include <cstdint>

#include "runtime/tensor/cuda/block_sum.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {

// Each thread takes packs of the row; sums go over the block.
inline LaunchShape NormRowShape(int64_t rows, int64_t packs) {
  return {.blocks = rows, .threads = ThreadsFor(packs), .shared_bytes = kBlockSumBytes};
}

// What is normalized.
template <typename T>
struct NormInput {
  const T* x;
  const T* residual;  // or null

  // x, or x + residual as it is stored.
  template <int N>
  REPRISE_ON_DEVICE Pack<T, N> Load(int64_t i) const {
    Pack<T, N> sum = LoadPack<N>(x + i);
    if (residual == nullptr) return sum;
    const Pack<T, N> added = LoadPack<N>(residual + i);
    for (int k = 0; k < N; ++k) sum.values[k] = Rounded<T>(Widened(sum.values[k]) + Widened(added.values[k]));
    return sum;
  }
};

template <typename T>
struct NormGradient {
  const T* x;
  const T* gain;
  const T* dy;
  const T* residual;  // added to dx, or null
  T* dx;
  int64_t width;

  // function(x, g) for each element of this thread in the row that begins at `first`, with g = dy gain.
  template <int N, typename Function>
  REPRISE_ON_DEVICE void ForEach(int64_t first, const Function& function) const {
    ForEachPack<N>(width, [&](int64_t c) {
      const Pack<T, N> row = LoadPack<N>(x + first + c);
      const Pack<T, N> outer = LoadPack<N>(dy + first + c);
      const Pack<T, N> gains = LoadPack<N>(gain + c);
      for (int k = 0; k < N; ++k) {
        function(Widened(row.values[k]), Widened(outer.values[k]) * Widened(gains.values[k]));
      }
    });
  }

  // dx = function(x, g) [+ residual]
  template <int N, typename Function>
  REPRISE_ON_DEVICE void Store(int64_t first, const Function& function) const {
    ForEachPack<N>(width, [&](int64_t c) {
      const Pack<T, N> row = LoadPack<N>(x + first + c);
      const Pack<T, N> outer = LoadPack<N>(dy + first + c);
      const Pack<T, N> gains = LoadPack<N>(gain + c);
      Pack<T, N> added{};
      if (residual != nullptr) added = LoadPack<N>(residual + first + c);
      Pack<T, N> to;
      for (int k = 0; k < N; ++k) {
        const float value = function(Widened(row.values[k]), Widened(outer.values[k]) * Widened(gains.values[k]));
        to.values[k] = Rounded<T>(residual == nullptr ? value : value + Widened(added.values[k]));
      }
      StorePack(to, dx + first + c);
    });
  }
};

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_NORM_ROW_H_
