// GELU (Hendrycks and Gimpel 2016), by itself and after a bias: GPT-2's tanh form and the exact one.
//
//   gelu(x[N,M]) -> g[N,M]
//   gelu_gradient(x, dg[N,M]) -> dx[N,M]
//   bias_gelu(h[N,M], b[M]) -> g[N,M]: with x = h + b, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   bias_gelu_gradient(h, b, dg[N,M]) -> dh[N,M], db[M]       db sums dh before it is rounded
//
// gelu_erf, gelu_erf_gradient, bias_gelu_erf and bias_gelu_erf_gradient are the same of the exact form,
// 0.5 x (1 + erf(x / sqrt(2))).
#include <string>

#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

OperationTypes InferGelu(const OperationTypes& t, const Attributes&) {
  CheckTypes("gelu", t, t.size() == 1 && IsFloatMatrix(t[0]));
  return {t[0]};
}

OperationTypes InferGeluGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("gelu_gradient", t, t.size() == 2 && IsFloatMatrix(t[0]) && t[1] == t[0]);
  return {t[0]};
}

OperationTypes InferBiasGelu(const OperationTypes& t, const Attributes&) {
  CheckTypes("bias_gelu", t, t.size() == 2 && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]));
  return {t[0]};
}

OperationTypes InferBiasGeluGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("bias_gelu_gradient", t, t.size() == 3 && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]) && t[2] == t[0]);
  return {t[0], {WideTypeOf(t[0].dtype), {t[0].columns()}}};
}

bool Register(const std::string& suffix) {
  return RegisterOperation({.name = "gelu" + suffix, .infer = InferGelu}) &&
         RegisterOperation({.name = "gelu" + suffix + "_gradient", .infer = InferGeluGradient}) &&
         RegisterOperation({.name = "bias_gelu" + suffix, .infer = InferBiasGelu}) &&
         RegisterOperation({.name = "bias_gelu" + suffix + "_gradient", .infer = InferBiasGeluGradient});
}

[[maybe_unused]] const bool registered = Register("") && Register("_erf");

}  // namespace
}  // namespace reprise
