// The gated activation of Llama's feed-forward layer, SwiGLU (Shazeer 2020), with silu(x) = x / (1 + exp(-x)).
//
//   silu_multiply(gate[N,F], up[N,F]) -> silu(gate) * up, rounded once
//   silu_multiply_gradient(gate, up, dy[N,F]) -> dgate[N,F], dup[N,F]
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

OperationTypes InferSiluMultiply(const OperationTypes& t, const Attributes&) {
  CheckTypes("silu_multiply", t, t.size() == 2 && IsFloatMatrix(t[0]) && t[1] == t[0]);
  return {t[0]};
}

OperationTypes InferSiluMultiplyGradient(const OperationTypes& t, const Attributes&) {
  CheckTypes("silu_multiply_gradient", t, t.size() == 3 && IsFloatMatrix(t[0]) && t[1] == t[0] && t[2] == t[0]);
  return {t[0], t[0]};
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "silu_multiply", .infer = InferSiluMultiply}) &&
    RegisterOperation({.name = "silu_multiply_gradient", .infer = InferSiluMultiplyGradient});

}  // namespace
}  // namespace reprise
