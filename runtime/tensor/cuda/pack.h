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

#include "device/cuda/threads.h"
#include "runtime/tensor/access.h"
#include "runtime/tensor/bfloat16.h"
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

// `width` elements of a row, shared out over the threads of a block: function(first element of a pack).
template <int N, typename Function>
REPRISE_ON_DEVICE void ForEachPack(int64_t width, const Function& function) {
  for (int64_t c = int64_t{N} * Thread(); c < width; c += int64_t{N} * Threads()) function(c);
}

// Calls function(T{}) for the element type of `spec`.
template <typename Function>
auto WithElementType(const KernelSpec& spec, Function function) {
  return ComputeType(spec) == DType::kBFloat16 ? function(BFloat16{}) : function(float{});
}

// Calls function(T{}, std::integral_constant<int, N>{}) for the element type of `spec` and packs that divide `width`.
template <typename Function>
auto WithPackSize(const KernelSpec& spec, int64_t width, Function function) {
  return WithElementType(spec, [&]<typename T>(T type) {
    constexpr int kElements = kPackBytes / static_cast<int>(sizeof(T));
    return width % kElements == 0 ? function(type, std::integral_constant<int, kElements>{})
                                  : function(type, std::integral_constant<int, 1>{});
  });
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_PACK_H_
