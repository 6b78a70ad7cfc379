// Token embeddings, with or without position embeddings.
//
//   embedding(tokens i32[N], wte[V,C] [, wpe[P,C] [, at i32[N]]]; sequence_length T) -> x[N,C]
//     x[i] = wte[tokens[i]] [+ wpe[i % T], or wpe[at[i]], which is at least 0 and less than T]
//   embedding_gradient(tokens, dx[N,C] [, at]; sequence_length, vocabulary V, positions P) -> dwte[V,C] [, dwpe[P,C]]
//     positions 0: there were none
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

bool AreTokens(const TensorType& type) { return type.dtype == DType::kInt32 && type.shape.size() == 1; }

OperationTypes InferEmbedding(const OperationTypes& t, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  CheckTypes("embedding", t,
             t.size() >= 2 && t.size() <= 4 && AreTokens(t[0]) && IsFloatMatrix(t[1]) && length > 0 &&
                 t[0].elements() % length == 0);
  CheckTypes("embedding", t,
             t.size() == 2 || (IsFloatMatrix(t[2]) && t[1].dtype == t[2].dtype && t[1].columns() == t[2].columns() &&
                               length <= t[2].rows()));
  CheckTypes("embedding", t, t.size() < 4 || t[3] == t[0]);
  return {{t[1].dtype, {t[0].elements(), t[1].columns()}}};
}

OperationTypes InferEmbeddingGradient(const OperationTypes& t, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  const int64_t positions = attributes.Int("positions");
  CheckTypes("embedding_gradient", t,
             (t.size() == 2 || (t.size() == 3 && t[2] == t[0])) && AreTokens(t[0]) && IsFloatMatrix(t[1]) &&
                 t[0].elements() == t[1].rows() && length > 0 && (positions == 0 || length <= positions) &&
                 t[0].elements() % length == 0);
  const DType wide = WideTypeOf(t[1].dtype);
  OperationTypes tables = {{wide, {attributes.Int("vocabulary"), t[1].columns()}}};
  if (positions > 0) tables.push_back({wide, {positions, t[1].columns()}});
  return tables;
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "embedding", .infer = InferEmbedding}) &&
    RegisterOperation({.name = "embedding_gradient", .infer = InferEmbeddingGradient});

}  // namespace
}  // namespace reprise
