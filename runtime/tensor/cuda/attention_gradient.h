// What both forms of attention's gradient share: the task of a call, and delta = do . o of each query.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_GRADIENT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_GRADIENT_H_

#include <cstdint>

#include "runtime/tensor/cuda/attention_tile.h"
#include "runtime/tensor/cuda/block_sum.h"

namespace reprise::cuda {

template <typename T>
struct GradientTask {
  AttentionTask<T> forward;
  const T* o;
  const float* lse;
  const T* d_o;
  float* delta;  // of the shape of lse
  T* dq;         // any of the three may be null; strides as of q, k and v
  T* dk;
  T* dv;
  int64_t sequences;
};

// A warp a query of a head, in the order of lse.
template <typename T>
REPRISE_KERNEL void QueryDeltas(GradientTask<T> task) {
  const AttentionTask<T>& forward = task.forward;
  const int64_t item = BlockX() * Warps() + Warp();
  if (item >= task.sequences * forward.heads * forward.length) return;
  const int64_t query = item % forward.length;
  const int64_t head = item / forward.length % forward.heads;
  const int64_t sequence = item / forward.length / forward.heads;
  const int64_t first = ((sequence * forward.length + query) * forward.heads + head) * forward.size;
  float delta = 0;
  for (int c = Lane(); c < forward.size; c += kWarp) {
    delta = std::fma(Widened(task.d_o[first + c]), Widened(task.o[first + c]), delta);
  }
  delta = WarpSum(delta);
  if (Lane() == 0) task.delta[item] = delta;
}

// The first element of a key-value head in k, v, dk and dv.
template <typename T>
REPRISE_ON_DEVICE int64_t KeyValueOffset(const AttentionTask<T>& forward, int64_t sequence, int key_value_head) {
  return sequence * forward.length * forward.kv_stride + static_cast<int64_t>(key_value_head) * forward.size;
}

template <typename T>
GradientTask<T> MakeGradientTask(const AttentionGeometry& geometry, const AttentionTask<T>& forward,
                                 const KernelArguments& arguments) {
  GradientTask<T> task{.forward = geometry.Fill(forward, arguments),
                       .o = Input<T>(arguments, geometry.Rest(0)),
                       .lse = Input<float>(arguments, geometry.Rest(1)),
                       .d_o = Input<T>(arguments, geometry.Rest(2)),
                       .delta = reinterpret_cast<float*>(arguments.scratch),
                       .dq = Output<T>(arguments, 0),
                       .dk = nullptr,
                       .dv = nullptr,
                       .sequences = geometry.sequences};
  if (!geometry.packed) {
    task.dk = Output<T>(arguments, 1);
    task.dv = Output<T>(arguments, 2);
  } else if (task.dq != nullptr) {
    task.dk = task.dq + geometry.heads * geometry.size;
    task.dv = task.dk + geometry.heads * geometry.size;
  }
  return task;
}

// Deltas take an element of lse's type and shape each, in scratch.
inline int64_t DeltaBytes(const AttentionGeometry& geometry) {
  return geometry.sequences * geometry.heads * geometry.length * static_cast<int64_t>(sizeof(float));
}

template <typename T>
void LaunchQueryDeltas(const AttentionGeometry& geometry, const GradientTask<T>& task) {
  const int64_t items = geometry.sequences * geometry.heads * geometry.length;
  constexpr int kWarpsOfBlock = kThreads / kWarp;
  Launch({.blocks = (items + kWarpsOfBlock - 1) / kWarpsOfBlock, .threads = kThreads}, QueryDeltas<T>, task);
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_GRADIENT_H_
