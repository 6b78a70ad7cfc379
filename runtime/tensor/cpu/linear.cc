// linear and its gradients: one Product each.
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/product.h"
#include "runtime/tensor/kernel.h"

namespace reprise {
namespace {

class LinearKernel : public Kernel {
 public:
  // Which arguments are A, B; the bias is always input 2.
  LinearKernel(const ProductSpec& product, size_t a, size_t b) : product_(product), bias_(product.bias), a_(a), b_(b) {}

  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }

  void Run(const KernelArguments& arguments) const override {
    if (arguments.outputs[0] == nullptr) return;
    product_.Run({.a = arguments.inputs[a_],
                  .b = arguments.inputs[b_],
                  .bias = bias_ ? arguments.inputs[2] : nullptr,
                  .c = arguments.outputs[0],
                  .accumulate = (arguments.accumulate & 1U) != 0,
                  .scratch = arguments.scratch});
  }

 private:
  Product product_;
  bool bias_;
  size_t a_;
  size_t b_;
};

bool Transposed(const KernelSpec& spec) { return spec.attributes.Int("transposed") != 0; }

KernelOr MakeLinear(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  const DType dtype = spec.inputs[0].dtype;
  const ProductSpec product = {.m = spec.inputs[0].rows(),
                               .n = spec.outputs[0].columns(),
                               .k = spec.inputs[0].columns(),
                               .a = dtype,
                               .b = dtype,
                               .c = dtype,
                               .transpose_b = Transposed(spec),
                               .bias = spec.inputs.size() > 2,
                               .threads = options.threads};
  return std::make_unique<LinearKernel>(product, 0, 1);
}

KernelOr MakeInputGradient(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  const DType dtype = spec.inputs[0].dtype;
  const ProductSpec product = {.m = spec.inputs[0].rows(),
                               .n = spec.outputs[0].columns(),
                               .k = spec.inputs[0].columns(),
                               .a = dtype,
                               .b = dtype,
                               .c = dtype,
                               .transpose_b = !Transposed(spec),
                               .threads = options.threads};
  return std::make_unique<LinearKernel>(product, 0, 1);
}

// With the accumulate bit oneDNN adds parts of the sum over tokens to what stands there, in an order that depends on
// the shape and the threads only: the same bits every time, but not those of "complete result, then one addition".
KernelOr MakeWeightGradient(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  const DType dtype = spec.inputs[0].dtype;
  const size_t a = Transposed(spec) ? 1 : 0;
  const ProductSpec product = {.m = spec.inputs[a].columns(),
                               .n = spec.inputs[1 - a].columns(),
                               .k = spec.inputs[0].rows(),
                               .a = dtype,
                               .b = dtype,
                               .c = DType::kFloat32,
                               .transpose_a = true,
                               .threads = options.threads};
  return std::make_unique<LinearKernel>(product, a, 1 - a);
}

const bool registered = RegisterKernel("linear", KernelKind::kCpu, MakeLinear) &&
                        RegisterKernel("linear_input_gradient", KernelKind::kCpu, MakeInputGradient) &&
                        RegisterKernel("linear_weight_gradient", KernelKind::kCpu, MakeWeightGradient);

}  // namespace
}  // namespace reprise
