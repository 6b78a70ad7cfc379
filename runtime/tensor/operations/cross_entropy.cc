// linear_cross_entropy: the head's product, the loss and both gradients in one, so that logits of all rows never exist.
#include "base/check.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

std::vector<TensorType> Infer(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 3) << "linear_cross_entropy: takes y, w and labels, not " << t.size() << " inputs";
  REPRISE_CHECK(t[0].shape.size() == 2 && t[1].shape.size() == 2 && t[0].columns() == t[1].columns() &&
                t[0].dtype == t[1].dtype)
      << "linear_cross_entropy: " << t[0].ToString() << " does not fit weight " << t[1].ToString();
  REPRISE_CHECK(t[2].dtype == DType::kInt32 && t[2].elements() == t[0].rows())
      << "linear_cross_entropy: labels " << t[2].ToString() << " do not fit " << t[0].ToString();
  const TensorType loss{DType::kFloat64, {1}};
  if (attributes.Int("gradients") == 0) return {loss};
  return {loss, t[0], {t[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, t[1].shape}};
}

int64_t Flops(const OperationTypes& t, const Attributes& attributes) {
  const int64_t product = 2 * t[0].rows() * t[1].elements();
  return attributes.Int("gradients") != 0 ? 3 * product : product;
}

const bool registered = RegisterOperation({.name = "linear_cross_entropy", .infer = Infer, .flops = Flops});

}  // namespace
}  // namespace reprise
