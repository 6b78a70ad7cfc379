// linear and its gradients: one product each (product.h).
#include "base/status_macros.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/product.h"

namespace reprise::cuda {
namespace {

// A kernel that is output 0 = product of inputs `a` and `b`, with input 2 as the bias where there is one.
KernelOr MakeProductKernel(const KernelSpec& spec, ProductSpec product_spec, size_t a, size_t b) {
  product_spec.inputs = spec.inputs[0].dtype;
  product_spec.output = spec.outputs[0].dtype;
  if (product_spec.inputs == DType::kFloat64) return MakeCudaKernel(spec, nullptr);
  ASSIGN_OR_RETURN(std::shared_ptr<const Product> product, MakeProduct(product_spec));
  const int64_t scratch_bytes = product->scratch_bytes();
  const auto run = [product = std::move(product), a, b, bias = product_spec.bias](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    product->Run({.a = arguments.inputs[a],
                  .b = arguments.inputs[b],
                  .bias = bias ? arguments.inputs[2] : nullptr,
                  .c = arguments.outputs[0],
                  .accumulate = Accumulates(arguments, 0),
                  .scratch = arguments.scratch});
  };
  return MakeCudaKernel(spec, run, scratch_bytes);
}

bool IsTransposed(const KernelSpec& spec) { return spec.attributes.Int("transposed") != 0; }

KernelOr MakeLinear(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeProductKernel(spec,
                           {.m = spec.inputs[0].rows(),
                            .n = spec.outputs[0].columns(),
                            .k = spec.inputs[0].columns(),
                            .transpose_b = IsTransposed(spec),
                            .bias = spec.inputs.size() > 2},
                           0, 1);
}

// dx = dy w'
KernelOr MakeInputGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeProductKernel(spec,
                           {.m = spec.inputs[0].rows(),
                            .n = spec.outputs[0].columns(),
                            .k = spec.inputs[0].columns(),
                            .transpose_b = !IsTransposed(spec)},
                           0, 1);
}

// dw = x' dy, stored [in, out], or dy' x, stored [out, in].
KernelOr MakeWeightGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const size_t a = IsTransposed(spec) ? 1 : 0;
  const size_t b = 1 - a;
  return MakeProductKernel(
      spec,
      {.m = spec.inputs[a].columns(), .n = spec.inputs[b].columns(), .k = spec.inputs[0].rows(), .transpose_a = true},
      a, b);
}

[[maybe_unused]] const bool registered =
    RegisterKernel("linear", KernelKind::kCuda, MakeLinear) &&
    RegisterKernel("linear_input_gradient", KernelKind::kCuda, MakeInputGradient) &&
    RegisterKernel("linear_weight_gradient", KernelKind::kCuda, MakeWeightGradient);

}  // namespace
}  // namespace reprise::cuda
