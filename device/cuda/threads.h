// The words that kernels are written in: where a thread stands in its grid, barriers, shuffles and
// shared memory. nvcc turns them into CUDA's own. Built by another compiler they are functions of whoever runs the
// kernels on a CPU: the tests do, with a fiber a thread (tests/tools/cuda/fibers.h), so that each kernel's source is
// tested without a GPU.
//
//   REPRISE_KERNEL void ScaleRows(float* x, const float* scale, int64_t width) {
//     float* row = x + BlockX() * width;
//     for (int64_t c = Thread(); c < width; c += Threads()) row[c] *= scale[BlockX()];
//   }
//   Launch({.blocks = rows, .threads = 256}, ScaleRows, x, scale, width);       // launch.h
//
// Rules: blocks of one dimension, whole warps; every thread of a block reaches every Barrier, every lane of a warp
// every exchange; no atomics on floats, so that a result never depends on an order; no static shared arrays. Compiled
// without contraction: a fused multiply-add is written std::fma. Instructions without a word here have a wrapper with a
// twin for the CPU of their own (runtime/tensor/cuda/matrix_unit.h, async_copy.h).
#ifndef REPRISE_DEVICE_CUDA_THREADS_H_
#define REPRISE_DEVICE_CUDA_THREADS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define REPRISE_KERNEL __global__
#define REPRISE_ON_DEVICE __device__ __forceinline__
// Behind the return type of a kernel: the threads of its blocks, and the blocks that an SM is to have room for.
#define REPRISE_BLOCKS(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define REPRISE_KERNEL
#define REPRISE_ON_DEVICE inline
#define REPRISE_BLOCKS(threads, blocks)
#endif

namespace reprise::cuda {

inline constexpr int kWarp = 32;

#ifdef __CUDACC__

__device__ __forceinline__ int Thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int Threads() { return static_cast<int>(blockDim.x); }
__device__ __forceinline__ int64_t BlockX() { return blockIdx.x; }
__device__ __forceinline__ int64_t BlockY() { return blockIdx.y; }
__device__ __forceinline__ int64_t BlocksX() { return gridDim.x; }
__device__ __forceinline__ void Barrier() { __syncthreads(); }
__device__ __forceinline__ void WarpBarrier() { __syncwarp(); }

template <typename T>
__device__ __forceinline__ T* Shared() {
  extern __shared__ __align__(16) std::byte shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
}

__device__ __forceinline__ float FromLane(float value, int lane) { return __shfl_sync(0xFFFFFFFFU, value, lane); }
__device__ __forceinline__ double FromLane(double value, int lane) { return __shfl_sync(0xFFFFFFFFU, value, lane); }
__device__ __forceinline__ uint32_t FromLane(uint32_t value, int lane) { return __shfl_sync(0xFFFFFFFFU, value, lane); }

#else

int Thread();      // 0 .. Threads() - 1
int Threads();     // of a block
int64_t BlockX();  // 0 .. BlocksX() - 1
int64_t BlockY();
int64_t BlocksX();
void Barrier();  // of all threads of the block
std::byte* SharedBytes();

// The bytes that Launch asked for, aligned to 16; undefined at first.
template <typename T>
T* Shared() {
  return reinterpret_cast<T*>(SharedBytes());
}

uint64_t BitsFromLane(uint64_t bits, int lane);

// What a warp does as one: function(records), with the record of each lane, once all lanes have come with theirs and
// the same function. For twins of instructions of a whole warp.
void Together(void (*function)(void* const* records), void* record);

// Of all lanes of the warp.
inline void WarpBarrier() { static_cast<void>(BitsFromLane(0, 0)); }

// The value that another lane of this warp gives; all lanes take part.
inline float FromLane(float value, int lane) {
  return std::bit_cast<float>(static_cast<uint32_t>(BitsFromLane(std::bit_cast<uint32_t>(value), lane)));
}
inline double FromLane(double value, int lane) {
  return std::bit_cast<double>(BitsFromLane(std::bit_cast<uint64_t>(value), lane));
}
inline uint32_t FromLane(uint32_t value, int lane) { return static_cast<uint32_t>(BitsFromLane(value, lane)); }

#endif

REPRISE_ON_DEVICE int Lane() { return Thread() % kWarp; }
REPRISE_ON_DEVICE int Warp() { return Thread() / kWarp; }
REPRISE_ON_DEVICE int Warps() { return Threads() / kWarp; }

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_THREADS_H_
