// Sums of tensors and of a bias, a tensor times a number, and copies.
//
//   add(a, b) -> sum                          any equal shapes
//   scale(x; factor) -> x * factor            any shape; rounded once
//   bias_add(h[N,M], b[M]) -> y[N,M]
//   bias_gradient(dy[N,M]) -> db[M]
//   copy(x) -> y                              any type: what a block hands on as it was
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

OperationTypes InferAdd(const OperationTypes& t, const Attributes&) {
  CheckTypes("add", t, t.size() == 2 && t[0] == t[1] && t[0].dtype != DType::kInt32);
  return {t[0]};
}

OperationTypes InferScale(const OperationTypes& t, const Attributes& attributes) {
  CheckTypes("scale", t, t.size() == 1 && t[0].dtype != DType::kInt32);
  attributes.Real("factor");
  return {t[0]};
}

OperationTypes InferBiasAdd(const OperationTypes& t, const Attributes&) {
  CheckTypes("bias_add", t, t.size() == 2 && IsFloatMatrix(t[0]) && IsRowOf(t[1], t[0]));
  return {t[0]};
}

OperationTypes InferBiasGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("bias_gradient", t, t.size() == 1 && IsFloatMatrix(t[0]));
  return {{WideTypeOf(t[0].dtype), {t[0].columns()}}};
}

OperationTypes InferCopy(const OperationTypes& t, const Attributes&) {
  CheckTypes("copy", t, t.size() == 1);
  return {t[0]};
}

[[maybe_unused]] const bool registered = RegisterOperation({.name = "add", .infer = InferAdd}) &&
                                         RegisterOperation({.name = "scale", .infer = InferScale}) &&
                                         RegisterOperation({.name = "bias_add", .infer = InferBiasAdd}) &&
                                         RegisterOperation({.name = "bias_gradient", .infer = InferBiasGradient}) &&
                                         RegisterOperation({.name = "copy", .infer = InferCopy});

}  // namespace
}  // namespace reprise
