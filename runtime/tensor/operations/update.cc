// Kernels of shards: the optimizers, the norm, conversions. Flat tensors of n elements.
//
//   adamw(g[n]; beta1, beta2, epsilon, weight_decay) -> p[n], m[n], v[n]     all three read and written in place
//     Loshchilov and Hutter 2019 in the order of PyTorch's AdamW, with g' = g * gradient_scale, t = step + 1:
//     p *= 1 - lr wd;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
//     p -= lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon)
//   sgd(g[n]; weight_decay) -> p[n]                in place: p -= lr (g' + wd p)
//   squared_sum(x[n]) -> s f64[1]                  chunks of 4096 elements, each summed in float64, added in order
//   cast(x[n]; dtype) -> y[n]                      dtype: int of the DType; rounds to nearest, ties to even
//   fill_zero(; dtype, elements) -> x[n]
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

bool IsOneFloat(const OperationTypes& t) { return t.size() == 1 && t[0].dtype != DType::kInt32; }

OperationTypes InferAdamW(const OperationTypes& t, const Attributes&) {
  CheckTypes("adamw", t, IsOneFloat(t));
  return {t[0], t[0], t[0]};
}

OperationTypes InferSgd(const OperationTypes& t, const Attributes&) {
  CheckTypes("sgd", t, IsOneFloat(t));
  return {t[0]};
}

OperationTypes InferSquaredSum(const OperationTypes& t, const Attributes&) {
  CheckTypes("squared_sum", t, IsOneFloat(t));
  return {{DType::kFloat64, {1}}};
}

OperationTypes InferCast(const OperationTypes& t, const Attributes& attributes) {
  CheckTypes("cast", t, IsOneFloat(t));
  return {{static_cast<DType>(attributes.Int("dtype")), t[0].shape}};
}

OperationTypes InferFillZero(const OperationTypes& t, const Attributes& attributes) {
  CheckTypes("fill_zero", t, t.empty());
  return {{static_cast<DType>(attributes.Int("dtype")), {attributes.Int("elements")}}};
}

[[maybe_unused]] const bool registered = RegisterOperation({.name = "adamw", .infer = InferAdamW}) &&
                                         RegisterOperation({.name = "sgd", .infer = InferSgd}) &&
                                         RegisterOperation({.name = "squared_sum", .infer = InferSquaredSum}) &&
                                         RegisterOperation({.name = "cast", .infer = InferCast}) &&
                                         RegisterOperation({.name = "fill_zero", .infer = InferFillZero});

}  // namespace
}  // namespace reprise
