// Flat tensors: a thread a pack of 16 bytes, of which the last may hold fewer elements. Tensors start at multiples of
// 16 bytes.
//
//   template <typename T>
//   REPRISE_KERNEL void Double(const T* x, T* y, int64_t elements) {
//     const int64_t i = FlatIndex<T>();
//     Pack<T, kFlat<T>> pack = LoadFlat<kFlat<T>>(x, i, elements);     // elements past the end are 0
//     for (T& value : pack.values) value = Rounded<T>(2 * Widened(value));
//     StoreFlat(pack, y, i, elements);                                 // and are not written
//   }
//   Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, Double<T>, x, y, elements);
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_FLAT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_FLAT_H_

#include <cstdint>

#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {

// Elements of a thread.
template <typename T>
inline constexpr int kFlat = kPackBytes / static_cast<int>(sizeof(T));

template <typename T>
constexpr int64_t FlatBlocks(int64_t elements) {
  return BlocksFor((elements + kFlat<T> - 1) / kFlat<T>);
}

// The first element of this thread; past the end in some of the last block.
template <typename T>
REPRISE_ON_DEVICE int64_t FlatIndex() {
  return ThisItem() * kFlat<T>;
}

// The first `count` elements at `place`, which need not be aligned; the rest of the pack is 0.
template <int N, typename T>
REPRISE_ON_DEVICE Pack<T, N> LoadPart(const T* place, int64_t count) {
  Pack<T, N> pack{};
  for (int k = 0; k < N; ++k) {
    if (k < count) pack.values[k] = place[k];
  }
  return pack;
}

template <typename T, int N>
REPRISE_ON_DEVICE void StorePart(const Pack<T, N>& pack, T* place, int64_t count) {
  for (int k = 0; k < N; ++k) {
    if (k < count) place[k] = pack.values[k];
  }
}

// Elements i .. i + N - 1 of x, which has `elements`; i is a multiple of N.
template <int N, typename T>
REPRISE_ON_DEVICE Pack<T, N> LoadFlat(const T* x, int64_t i, int64_t elements) {
  return i + N <= elements ? LoadPack<N>(x + i) : LoadPart<N>(x + i, elements - i);
}

template <typename T, int N>
REPRISE_ON_DEVICE void StoreFlat(const Pack<T, N>& pack, T* x, int64_t i, int64_t elements) {
  i + N <= elements ? StorePack(pack, x + i) : StorePart(pack, x + i, elements - i);
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_FLAT_H_
