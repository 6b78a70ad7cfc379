// Launch: the one function through which kernels are started.
//
//   Launch({.blocks = rows, .threads = 256, .shared_bytes = 8 * sizeof(float)}, NormalizeRows<float>, x, y, width);
//
// On a GPU the kernel goes to the current stream of the calling thread (device/cuda/current_stream.h), and an error of
// the launch is the device's to report, with the instruction that it belongs to. Elsewhere it has ended when Launch
// returns. A grid without blocks starts nothing.
#ifndef REPRISE_DEVICE_CUDA_LAUNCH_H_
#define REPRISE_DEVICE_CUDA_LAUNCH_H_

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "device/cuda/current_stream.h"
#else
#include <functional>
#endif

namespace reprise::cuda {

struct LaunchShape {
  int64_t blocks = 1;        // below 2^31
  int64_t blocks_y = 1;      // below 65536
  int threads = 256;         // of a block: whole warps, at most 1024
  int64_t shared_bytes = 0;  // at most kMostSharedBytes
};

// What a block may have on every GPU of compute capability 8 and later.
inline constexpr int64_t kMostSharedBytes = 96 << 10;

#ifdef __CUDACC__

template <typename... Parameters, typename... Arguments>
void Launch(const LaunchShape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  if (shape.blocks == 0 || shape.blocks_y == 0) return;
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
  configuration.blockDim = dim3(static_cast<unsigned>(shape.threads));
  configuration.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  constexpr int64_t kUnasked = 48 << 10;  // what lies above must be asked for
  if (shape.shared_bytes > kUnasked) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  }
  configuration.stream = static_cast<cudaStream_t>(CurrentStream());
  cudaLaunchKernelEx(&configuration, kernel, static_cast<Parameters>(arguments)...);
}

#else

// Runs `body` once a thread of the grid. Of whoever runs kernels on a CPU.
void RunThreads(const LaunchShape& shape, const std::function<void()>& body);

template <typename... Parameters, typename... Arguments>
void Launch(const LaunchShape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  if (shape.blocks == 0 || shape.blocks_y == 0) return;
  RunThreads(shape, [=] { kernel(static_cast<Parameters>(arguments)...); });
}

#endif

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_LAUNCH_H_
