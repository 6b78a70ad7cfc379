// linear_cross_entropy: the head's product, the loss and all gradients in one, so that logits of all rows never exist.
//
//   linear_cross_entropy(y[N,C], w[V,C], labels i32[N] [, bias[V]]; gradients) -> loss f64[1] [, dy, dw [, dbias]]
#include "base/check.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

std::vector<TensorType> Infer(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 3 || t.size() == 4)
      << "linear_cross_entropy: takes y, w, labels and perhaps a bias, not " << t.size() << " inputs";
  REPRISE_CHECK(t[0].shape.size() == 2 && t[1].shape.size() == 2 && t[0].columns() == t[1].columns() &&
                t[0].dtype == t[1].dtype)
      << "linear_cross_entropy: " << t[0].ToString() << " does not fit weight " << t[1].ToString();
  REPRISE_CHECK(t[2].dtype == DType::kInt32 && t[2].elements() == t[0].rows())
      << "linear_cross_entropy: labels " << t[2].ToString() << " do not fit " << t[0].ToString();
  REPRISE_CHECK(t.size() == 3 || t[3] == (TensorType{t[1].dtype, {t[1].rows()}}))
      << "linear_cross_entropy: bias " << t[3].ToString() << " does not fit weight " << t[1].ToString();
  const TensorType loss{DType::kFloat64, {1}};
  if (attributes.Int("gradients") == 0) return {loss};
  const DType wide = t[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  OperationTypes outputs = {loss, t[0], {wide, t[1].shape}};
  if (t.size() == 4) outputs.push_back({wide, t[3].shape});
  return outputs;
}

int64_t Flops(const OperationTypes& t, const Attributes& attributes) {
  const int64_t product = 2 * t[0].rows() * t[1].elements();
  return attributes.Int("gradients") != 0 ? 3 * product : product;
}

const bool registered = RegisterOperation({.name = "linear_cross_entropy", .infer = Infer, .flops = Flops});

}  // namespace
}  // namespace reprise
