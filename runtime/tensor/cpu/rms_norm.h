// Arguments of the RMS norm kernels, between the part that is compiled once and the part compiled for each target.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_RMS_NORM_H_
#define REPRISE_RUNTIME_TENSOR_CPU_RMS_NORM_H_

#include <cstdint>

namespace reprise {

// Outputs may be null. With `residual`, what is normalized is x + residual, rounded, and kept in `sum`.
struct RmsNormTask {
  const void* x;
  const void* residual;
  const void* gain;
  void* sum;
  void* y;
  float* rstd;
  int64_t width;
  float epsilon;
};

// `residual` and `dx` may be null.
struct RmsNormGradientTask {
  const void* x;
  const void* gain;
  const float* rstd;
  const void* dy;
  const void* residual;
  void* dx;
  int64_t width;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_RMS_NORM_H_
