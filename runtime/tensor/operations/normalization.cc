// Layer normalization over the last dimension (Ba et al. 2016).
//
//   layer_norm(x[N,C], gain[C], bias[C]; epsilon) -> y[N,C], mean[N], rstd[N]
//   add_layer_norm(x, r, gain, bias; epsilon) -> sum[N,C], y, mean, rstd      sum = x + r, rounded; y of the rounded
//   sum layer_norm_gradient(x, gain, mean, rstd, dy [, residual]) -> dx[N,C], dgain[C], dbias[C]
//     dx = residual + the gradient of x, added before rounding
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

TensorType Statistic(const TensorType& x) { return {WideTypeOf(x.dtype), {x.rows()}}; }

OperationTypes InferLayerNorm(const OperationTypes& t, const Attributes&) {
  CheckTypes("layer_norm", t, t.size() == 3 && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]) && t[1] == t[2]);
  return {t[0], Statistic(t[0]), Statistic(t[0])};
}

OperationTypes InferAddLayerNorm(const OperationTypes& t, const Attributes&) {
  CheckTypes("add_layer_norm", t,
             t.size() == 4 && IsFloatMatrix(t[0]) && t[0] == t[1] && IsRowOf(t[2], t[0]) && t[2] == t[3]);
  return {t[0], t[0], Statistic(t[0]), Statistic(t[0])};
}

OperationTypes InferLayerNormGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("layer_norm_gradient", t,
             (t.size() == 5 || (t.size() == 6 && t[5] == t[0])) && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]) &&
                 t[2] == Statistic(t[0]) && t[3] == t[2] && t[4] == t[0]);
  const TensorType parameter{WideTypeOf(t[0].dtype), {t[0].columns()}};
  return {t[0], parameter, parameter};
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "layer_norm", .infer = InferLayerNorm}) &&
    RegisterOperation({.name = "add_layer_norm", .infer = InferAddLayerNorm}) &&
    RegisterOperation({.name = "layer_norm_gradient", .infer = InferLayerNormGradient});

}  // namespace
}  // namespace reprise
