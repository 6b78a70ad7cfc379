// attention over all heads of a packed qkv, and its gradient.
#include "base/check.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

void CheckQkv(const char* operation, const TensorType& qkv, const Attributes& attributes) {
  const int64_t heads = attributes.Int("heads");
  const int64_t length = attributes.Int("sequence_length");
  REPRISE_CHECK(heads >= 1 && length >= 1) << operation << ": heads and sequence_length must be at least 1";
  REPRISE_CHECK(!qkv.shape.empty() && qkv.columns() % (3 * heads) == 0)
      << operation << ": " << qkv.ToString() << " is not q, k and v of " << heads << " heads";
  REPRISE_CHECK(qkv.rows() % length == 0)
      << operation << ": " << qkv.ToString() << " is not a whole number of sequences of " << length;
  const double dropout = attributes.Real("dropout");
  REPRISE_CHECK(dropout >= 0 && dropout < 1) << operation << ": dropout " << dropout << " is not in [0, 1)";
}

std::vector<TensorType> Infer(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 1) << "attention: takes qkv, not " << t.size() << " inputs";
  CheckQkv("attention", t[0], attributes);
  TensorType o = t[0];
  o.shape.back() /= 3;
  const DType lse = t[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return {o, {lse, {t[0].rows() * attributes.Int("heads")}}};
}

std::vector<TensorType> InferGradient(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 4) << "attention_gradient: takes qkv, o, lse and do, not " << t.size() << " inputs";
  const std::vector<TensorType> forward = Infer({t[0]}, attributes);
  REPRISE_CHECK(t[1] == forward[0] && t[2] == forward[1] && t[3] == forward[0])
      << "attention_gradient: " << t[1].ToString() << ", " << t[2].ToString() << ", " << t[3].ToString()
      << " do not fit " << t[0].ToString();
  return {t[0]};
}

// Two products of T x T x head size for each sequence and head.
int64_t Flops(const OperationTypes& t, const Attributes& attributes) {
  const int64_t flops = 4 * (t[0].elements() / 3) * attributes.Int("sequence_length");
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
