// An operation of one's own is a name with a shape rule, a gradient rule and a kernel for each kind of device. Its
// gradient is an operation, too: it needs the same but a gradient rule.
#include "squared_relu.h"

#include <algorithm>

#include "reprise/operation.h"

using namespace reprise;

namespace {

// Shape rules: from the types of the inputs to those of the outputs.
const bool kShapes =
    RegisterOperation({.name = "squared_relu",
                       .infer = [](const OperationTypes& in, const Attributes&) { return OperationTypes{in[0]}; }}) &&
    RegisterOperation({.name = "squared_relu_gradient",
                       .infer = [](const OperationTypes& in, const Attributes&) { return OperationTypes{in[0]}; }});

// dx = 2 max(x, 0) dy. What the rule reads of the forward, here x, is kept or computed again as the plan says.
const bool kGradient = RegisterGradient("squared_relu", [](GradientBuilder& builder, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = builder.Of(node.outputs[0]);
  builder.Add(x, builder.Emit("squared_relu_gradient", {x, dy})[0]);
});

// Kernels: T is float, BFloat16 or double; arithmetic is in float, or in double for double. A kernel that is to be fast
// derives from Kernel and is registered with RegisterKernel.
struct Value {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;  // nobody reads it
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      const Wide<T> positive = std::max<Wide<T>>(Widened(x[i]), 0);
      y[i] = Rounded<T>(positive * positive);
    }
  }
};

struct Gradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* dy = Input<T>(arguments, 1);
    T* dx = Output<T>(arguments, 0);
    if (dx == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      dx[i] = Rounded<T>(2 * std::max<Wide<T>>(Widened(x[i]), 0) * Widened(dy[i]));
    }
  }
};

const bool kKernels =
    RegisterPlainKernels<Value>("squared_relu") && RegisterPlainKernels<Gradient>("squared_relu_gradient");

}  // namespace

Tensor SquaredRelu(Tensor x) { return Apply("squared_relu", {x})[0]; }
