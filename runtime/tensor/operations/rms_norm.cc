// Root mean square normalization over the last dimension (Zhang and Sennrich 2019), as Llama does it.
//
//   rms_norm(x[N,C], gain[C]; epsilon) -> y[N,C], rstd[N]       y = gain (x rstd), x rstd rounded to x's type first
//   add_rms_norm(x, r, gain; epsilon) -> sum[N,C], y, rstd      sum = x + r, rounded; y of the rounded sum
//   rms_norm_gradient(x, gain, rstd, dy [, residual]) -> dx[N,C], dgain[C]
//     dx = residual + the gradient of x, added before rounding
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

TensorType Statistic(const TensorType& x) { return {WideTypeOf(x.dtype), {x.rows()}}; }

OperationTypes InferRmsNorm(const OperationTypes& t, const Attributes&) {
  CheckTypes("rms_norm", t, t.size() == 2 && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]));
  return {t[0], Statistic(t[0])};
}

OperationTypes InferAddRmsNorm(const OperationTypes& t, const Attributes&) {
  CheckTypes("add_rms_norm", t, t.size() == 3 && IsFloatMatrix(t[0]) && t[0] == t[1] && IsRowOf(t[2], t[0]));
  return {t[0], t[0], Statistic(t[0])};
}

OperationTypes InferRmsNormGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("rms_norm_gradient", t,
             (t.size() == 4 || (t.size() == 5 && t[4] == t[0])) && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]) &&
                 t[2] == Statistic(t[0]) && t[3] == t[0]);
  return {t[0], {WideTypeOf(t[0].dtype), {t[0].columns()}}};
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "rms_norm", .infer = InferRmsNorm}) &&
    RegisterOperation({.name = "add_rms_norm", .infer = InferAddRmsNorm}) &&
    RegisterOperation({.name = "rms_norm_gradient", .infer = InferRmsNormGradient});

}  // namespace
}  // namespace reprise
