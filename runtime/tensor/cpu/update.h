// Arguments of the optimizers' kernels, between the part that is compiled once and the part compiled for each target.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_UPDATE_H_
#define REPRISE_RUNTIME_TENSOR_CPU_UPDATE_H_

#include <cmath>

#include "runtime/tensor/access.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

// The constants of one step, made in float64.
struct AdamWTask {
  AdamWTask(const Attributes& attributes, const KernelArguments& arguments)
      : AdamWTask(attributes, arguments, *arguments.step, static_cast<double>(arguments.step->step + 1)) {}

  const float* g;
  float* p;
  float* m;
  float* v;
  float gradient_scale;
  float beta1;
  float beta2;
  float rest1;  // 1 - beta1
  float rest2;
  float correction;  // of v: 1 / (1 - beta2^t)
  float step_size;   // learning rate / (1 - beta1^t)
  float decay;       // 1 - learning rate * weight decay
  float epsilon;

 private:
  AdamWTask(const Attributes& a, const KernelArguments& arguments, const StepValues& step, double t)
      : g(Input<float>(arguments, 0)),
        p(Output<float>(arguments, 0)),
        m(Output<float>(arguments, 1)),
        v(Output<float>(arguments, 2)),
        gradient_scale(static_cast<float>(step.gradient_scale)),
        beta1(static_cast<float>(a.Real("beta1"))),
        beta2(static_cast<float>(a.Real("beta2"))),
        rest1(static_cast<float>(1 - a.Real("beta1"))),
        rest2(static_cast<float>(1 - a.Real("beta2"))),
        correction(static_cast<float>(1 / (1 - std::pow(a.Real("beta2"), t)))),
        step_size(static_cast<float>(step.learning_rate / (1 - std::pow(a.Real("beta1"), t)))),
        decay(static_cast<float>(1 - step.learning_rate * a.Real("weight_decay"))),
        epsilon(static_cast<float>(a.Real("epsilon"))) {}
};

struct SgdTask {
  const float* g;
  float* p;
  float rate;
  float gradient_scale;
  float weight_decay;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_UPDATE_H_
