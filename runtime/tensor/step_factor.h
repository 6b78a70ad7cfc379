// The factor of a step's update: from the sums over all ranks to what the optimizers multiply gradients with. One
// function for every kind of device, so that the operation `step_factor` has the same bits on all.
//
//   step_factor: f64 [loss, squared norm, count] -> f64 [gradient_scale, updates], the last two of StepValues;
//   attribute clip_norm (0: no clipping).
#ifndef REPRISE_RUNTIME_TENSOR_STEP_FACTOR_H_
#define REPRISE_RUNTIME_TENSOR_STEP_FACTOR_H_

#include <cmath>

#include "base/host_device.h"

namespace reprise {

struct StepFactor {
  double gradient_scale;  // clip factor / count
  double updates;         // 0 where no label counts, or loss or norm is not finite: nothing is updated
};

// The norm of the mean loss's gradient is clipped to `clip_norm`, as PyTorch's clip_grad_norm_ does.
REPRISE_HOST_DEVICE inline StepFactor MakeStepFactor(double loss, double squares, double count, double clip_norm) {
  const double norm = std::sqrt(squares) / count;
  const double finite = loss / count - loss / count + (norm - norm);  // 0, or NaN
  if (!(count > 0) || finite != 0) return {0, 0};
  const double wanted = clip_norm / (norm + 1e-6);
  const double clip = clip_norm > 0 && wanted < 1 ? wanted : 1;
  return {clip / count, 1};
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_STEP_FACTOR_H_
