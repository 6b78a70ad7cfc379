// What the shape rules of operations share.
//
//   .infer = [](const OperationTypes& t, const Attributes&) {
//     CheckTypes("add", t, t.size() == 2 && t[0] == t[1]);
//     return OperationTypes{t[0]};
//   }
#ifndef REPRISE_RUNTIME_TENSOR_OPERATIONS_RULES_H_
#define REPRISE_RUNTIME_TENSOR_OPERATIONS_RULES_H_

#include "runtime/tensor/operation.h"

namespace reprise {

// Inputs that do not fit are a broken invariant: the process ends and names the operation and the types.
void CheckTypes(const char* operation, const OperationTypes& types, bool fit);

// What statistics and parameter gradients of a tensor of this type are kept in: float64 for float64, else float32.
constexpr DType WideTypeOf(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// True for a float32, bfloat16 or float64 matrix.
bool IsFloatMatrix(const TensorType& type);

// True for a vector of the last dimension of `matrix`, of its element type.
bool IsRowOf(const TensorType& vector, const TensorType& matrix);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_OPERATIONS_RULES_H_
