// Softmax attention over all heads of each sequence (Vaswani et al. 2017), and its gradient.
//
//   attention(qkv[N, 3*H*D]) -> o[N, H*D], lse[N*H]                        H heads, q, k and v side by side
//   attention(q[N, H*D], k[N, K*D], v[N, K*D]; key_value_heads K) -> o, lse
//     query head h reads key-value head h / (H / K) (grouped queries, Ainslie et al. 2023)
//   attention_gradient(qkv, o, lse, do) -> dqkv
//   attention_gradient(q, k, v, o, lse, do; key_value_heads) -> dq, dk, dv
//
// Both may have one more input behind q, k and v, with documents=1: starts i32[N], the row of its sequence at which
// each row's document begins (at least 0, at most the row itself); the row sees no earlier one.
//
// Both have heads H, sequence_length, causal, dropout and salt. lse is the logarithm of the sum of exponentials of a
// row's scores, by sequence, head and row.
#include <utility>

#include "base/check.h"
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

void CheckAttributes(const char* operation, const Attributes& attributes) {
  REPRISE_CHECK(attributes.Int("heads") >= 1 && attributes.Int("sequence_length") >= 1)
      << operation << ": heads and sequence_length must be at least 1";
  const double dropout = attributes.Real("dropout");
  REPRISE_CHECK(dropout >= 0 && dropout < 1) << operation << ": dropout " << dropout << " is not in [0, 1)";
}

void CheckRows(const char* operation, const TensorType& type, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  REPRISE_CHECK(type.rows() % length == 0)
      << operation << ": " << type.ToString() << " is not a whole number of sequences of " << length;
}

void CheckPacked(const char* operation, const TensorType& qkv, const Attributes& attributes) {
  const int64_t heads = attributes.Int("heads");
  REPRISE_CHECK(!qkv.shape.empty() && qkv.columns() % (3 * heads) == 0)
      << operation << ": " << qkv.ToString() << " is not q, k and v of " << heads << " heads";
  CheckRows(operation, qkv, attributes);
}

void CheckApart(const char* operation, const OperationTypes& t, const Attributes& attributes) {
  const int64_t heads = attributes.Int("heads");
  const int64_t key_value_heads = attributes.Int("key_value_heads");
  REPRISE_CHECK(key_value_heads >= 1 && heads % key_value_heads == 0)
      << operation << ": " << key_value_heads << " key-value heads do not divide " << heads << " heads";
  CheckTypes(operation, t,
             IsFloatMatrix(t[0]) && IsFloatMatrix(t[1]) && t[1] == t[2] && t[0].dtype == t[1].dtype &&
                 t[0].rows() == t[1].rows() && t[0].columns() % heads == 0 &&
                 t[1].columns() == t[0].columns() / heads * key_value_heads);
  CheckRows(operation, t[0], attributes);
}

// Takes the document starts, which stand behind q, k and v, away from them.
OperationTypes WithoutStarts(OperationTypes t, const Attributes& attributes) {
  if (!attributes.Has("documents")) return t;
  REPRISE_CHECK(!t.empty()) << "attention: no inputs";
  REPRISE_CHECK(t.back() == (TensorType{DType::kInt32, {t[0].rows()}}) && attributes.Int("causal") != 0)
      << "attention: document starts " << t.back().ToString() << " do not fit " << t[0].ToString()
      << ", or it is not causal";
  t.pop_back();
  return t;
}

std::vector<TensorType> Infer(const OperationTypes& inputs, const Attributes& attributes) {
  const OperationTypes t = WithoutStarts(inputs, attributes);
  REPRISE_CHECK(t.size() == 1 || t.size() == 3) << "attention: takes qkv, or q, k and v, not " << t.size() << " inputs";
  CheckAttributes("attention", attributes);
  t.size() == 1 ? CheckPacked("attention", t[0], attributes) : CheckApart("attention", t, attributes);
  TensorType o = t[0];
  if (t.size() == 1) o.shape.back() /= 3;
  return {o, {WideTypeOf(t[0].dtype), {t[0].rows() * attributes.Int("heads")}}};
}

std::vector<TensorType> InferGradient(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() >= 4) << "attention_gradient: takes qkv, or q, k and v, then o, lse and do, not " << t.size()
                               << " inputs";
  OperationTypes inputs(t.begin(), t.end() - 3);
  const std::vector<TensorType> forward = Infer(inputs, attributes);
  const TensorType* rest = &t[inputs.size()];
  REPRISE_CHECK(rest[0] == forward[0] && rest[1] == forward[1] && rest[2] == forward[0])
      << "attention_gradient: " << rest[0].ToString() << ", " << rest[1].ToString() << ", " << rest[2].ToString()
      << " do not fit " << t[0].ToString();
  return WithoutStarts(std::move(inputs), attributes);
}

// Two products of T x T x head size for each sequence and query head.
int64_t Flops(const OperationTypes& t, const Attributes& attributes) {
  const bool packed = !attributes.Has("key_value_heads");
  const int64_t queries = packed ? t[0].elements() / 3 : t[0].elements();
  const int64_t flops = 4 * queries * attributes.Int("sequence_length");
  return attributes.Int("causal") != 0 ? flops / 2 : flops;
}

const bool registered = RegisterOperation({.name = "attention", .infer = Infer, .flops = Flops}) &&
                        RegisterOperation({
                            .name = "attention_gradient",
                            .infer = InferGradient,
                            // Five products: the scores again, and one for each of dp, dq, dk, dv.
                            .flops = [](const OperationTypes& t, const Attributes& a) { return Flops(t, a) / 2 * 5; },
                        });

}  // namespace
}  // namespace reprise
