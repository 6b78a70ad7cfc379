// Pack: N neighbouring elements that a thread reads and writes at once, as many as 16 bytes hold.
//
//   Pack<T, N> pack = LoadPack<N>(x + i);            // i a multiple of N, x aligned to 16 bytes
//   for (T& value : pack.values) value = ...;
//   StorePack(pack, y + i);
//
// Rows start at multiples of their width: WithPackSize gives a kernel packs where all rows are aligned, else single
// elements. Both do the same arithmetic in the same order only where each element stands for itself; sums over a row
// depend on N, which depends on type and width alone.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_PACK_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_PACK_H_

#include <cstdint>
#include <type_traits>

#include "runtime/tensor/access.h"
#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/cuda/threads.h"
#include "runtime/tensor/kernel.h"

namespace reprise::cuda {

inline constexpr int kPackBytes = 16;

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <int N, typename T>
REPRISE_ON_DEVICE Pack<T, N> LoadPack(const T* place) {
  return *reinterpret_cast<const Pack<T, N>*>(place);
}

template <typename T, int N>
REPRISE_ON_DEVICE void StorePack(const Pack<T, N>& pack, T* place) {
  *reinterpret_cast<Pack<T, N>*>(place) = pack;
}

// Calls function(T{}, std::integral_constant<int, N>{}) for the element type of `spec` and packs that divide `width`.
template <typename Function>
auto WithPackSize(const KernelSpec& spec, int64_t width, Function function) {
  if (ComputeType(spec) == DType::kBFloat16) {
    constexpr int kElements = kPackBytes / static_cast<int>(sizeof(BFloat16));
    return width % kElements == 0 ? function(BFloat16{}, std::integral_constant<int, kElements>{})
                                  : function(BFloat16{}, std::integral_constant<int, 1>{});
  }
  constexpr int kElements = kPackBytes / static_cast<int>(sizeof(float));
  return width % kElements == 0 ? function(float{}, std::integral_constant<int, kElements>{})
                                : function(float{}, std::integral_constant<int, 1>{});
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_PACK_H_
