#include "device/cuda/add_floats.h"
#include "device/cuda/launch.h"
#include "device/cuda/threads.h"

namespace reprise::cuda {
namespace {

constexpr int kThreadsOfBlock = 256;

REPRISE_KERNEL void Add(float* to, const float* from, int64_t count) {
  const int64_t i = BlockX() * Threads() + Thread();
  if (i < count) to[i] += from[i];
}

}  // namespace

void AddFloats(float* to, const float* from, int64_t count) {
  Launch({.blocks = (count + kThreadsOfBlock - 1) / kThreadsOfBlock, .threads = kThreadsOfBlock}, Add, to, from, count);
}

}  // namespace reprise::cuda
