// Dropout (Srivastava et al. 2014) by counted random bits (philox.h): no mask is kept, its gradient is itself on dy.
//
//   dropout(x[N,C]; p, salt, sequence_length T) -> y[N,C]: y = kept ? x * (1 / (1 - p)) : 0
//   dropout_add(x, r; p, salt, sequence_length) -> r + dropout(x), where dropout(x) is rounded first
//
// Element (row, column) belongs to sequence first_sequence + row / T and is its element (row % T) * C + column.
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

bool FitsAttributes(const TensorType& x, const Attributes& attributes) {
  const double p = attributes.Real("p");
  const int64_t length = attributes.Int("sequence_length");
  return p >= 0 && p < 1 && attributes.Int("salt") >= 0 && length > 0 && x.rows() % length == 0;
}

OperationTypes InferDropout(const OperationTypes& t, const Attributes& attributes) {
  CheckTypes("dropout", t, t.size() == 1 && IsFloatMatrix(t[0]) && FitsAttributes(t[0], attributes));
  return {t[0]};
}

OperationTypes InferDropoutAdd(const OperationTypes& t, const Attributes& attributes) {
  CheckTypes("dropout_add", t,
             t.size() == 2 && IsFloatMatrix(t[0]) && t[1] == t[0] && FitsAttributes(t[0], attributes));
  return {t[0]};
}

[[maybe_unused]] const bool registered = RegisterOperation({.name = "dropout", .infer = InferDropout}) &&
                                         RegisterOperation({.name = "dropout_add", .infer = InferDropoutAdd});

}  // namespace
}  // namespace reprise
