// The sum of a value over the threads of a block, in an order that depends on their number only.
//
//   const float total = BlockSum(partial);   // the same in every thread; takes kBlockSumBytes of shared memory
//
// Lanes add in a butterfly, then the warps' sums are added in their order. Two sums may follow each other directly.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_BLOCK_SUM_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_BLOCK_SUM_H_

#include <cstdint>

#include "device/cuda/threads.h"

namespace reprise::cuda {

inline constexpr int64_t kBlockSumBytes = (1024 / kWarp) * static_cast<int64_t>(sizeof(double));

template <typename W>
REPRISE_ON_DEVICE W WarpSum(W value) {
  // Both lanes of a pair add the same two numbers, so that all lanes end with the same bits.
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += FromLane(value, Lane() ^ distance);
  return value;
}

// `sums` is a block's shared memory, Warps() elements of it.
template <typename W>
REPRISE_ON_DEVICE W BlockSum(W value, W* sums) {
  value = WarpSum(value);
  Barrier();  // who reads an earlier sum has read it
  if (Lane() == 0) sums[Warp()] = value;
  Barrier();
  W total = sums[0];
  for (int warp = 1; warp < Warps(); ++warp) total += sums[warp];
  return total;
}

template <typename W>
REPRISE_ON_DEVICE W BlockSum(W value) {
  return BlockSum(value, Shared<W>());
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_BLOCK_SUM_H_
