// Arguments of the dropout kernels, between the part that is compiled once and the part compiled for each target.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_
#define REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_

#include <array>
#include <cstdint>

#include "runtime/tensor/philox.h"

namespace reprise {

struct DropoutTask {
  const void* x;
  const void* residual;  // may be null
  void* y;
  std::array<RandomKey, 10> keys;  // of Philox's rounds
  uint32_t threshold;
  float scale;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_
