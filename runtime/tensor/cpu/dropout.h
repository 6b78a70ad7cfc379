// Arguments of the dropout kernels, between the part that is compiled once and the part compiled for each target.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_
#define REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_

#include <cstdint>

#include "runtime/tensor/philox.h"

namespace reprise {

struct DropoutTask {
  const void* x;
  const void* residual;  // may be null
  void* y;
  RandomKey key;
  uint32_t threshold;
  float scale;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_DROPOUT_H_
