// linear and its two gradients: products with a weight stored [in, out] (transposed = 0) or [out, in] (1).
#include "base/check.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

struct WeightSizes {
  int64_t in;
  int64_t out;
};

WeightSizes SizesOf(const TensorType& w, const Attributes& attributes) {
  REPRISE_CHECK(w.shape.size() == 2) << "linear: the weight must have two dimensions, not " << w.ToString();
  const bool transposed = attributes.Int("transposed") != 0;
  return {.in = w.shape[transposed ? 1 : 0], .out = w.shape[transposed ? 0 : 1]};
}

// `like` with another last dimension.
TensorType WithColumns(TensorType like, int64_t columns) {
  like.shape.back() = columns;
  return like;
}

std::vector<TensorType> InferLinear(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 2 || t.size() == 3) << "linear: takes x, w and maybe a bias, not " << t.size() << " inputs";
  const WeightSizes sizes = SizesOf(t[1], attributes);
  REPRISE_CHECK(!t[0].shape.empty() && t[0].columns() == sizes.in && t[0].dtype == t[1].dtype)
      << "linear: " << t[0].ToString() << " does not fit weight " << t[1].ToString();
  REPRISE_CHECK(t.size() == 2 || t[2] == (TensorType{t[0].dtype, {sizes.out}}))
      << "linear: bias " << t[2].ToString() << " does not fit weight " << t[1].ToString();
  return {WithColumns(t[0], sizes.out)};
}

std::vector<TensorType> InferInputGradient(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 2) << "linear_input_gradient: takes dy and w, not " << t.size() << " inputs";
  const WeightSizes sizes = SizesOf(t[1], attributes);
  REPRISE_CHECK(!t[0].shape.empty() && t[0].columns() == sizes.out && t[0].dtype == t[1].dtype)
      << "linear_input_gradient: " << t[0].ToString() << " does not fit weight " << t[1].ToString();
  return {WithColumns(t[0], sizes.in)};
}

std::vector<TensorType> InferWeightGradient(const OperationTypes& t, const Attributes& attributes) {
  REPRISE_CHECK(t.size() == 2) << "linear_weight_gradient: takes x and dy, not " << t.size() << " inputs";
  REPRISE_CHECK(!t[0].shape.empty() && !t[1].shape.empty() && t[0].rows() == t[1].rows() && t[0].dtype == t[1].dtype)
      << "linear_weight_gradient: " << t[0].ToString() << " does not fit " << t[1].ToString();
  const DType dtype = t[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int64_t in = t[0].columns();
  const int64_t out = t[1].columns();
  return {{dtype, attributes.Int("transposed") != 0 ? Shape{out, in} : Shape{in, out}}};
}

const bool registered =
    RegisterOperation({
        .name = "linear",
        .infer = InferLinear,
        .flops = [](const OperationTypes& t, const Attributes&) { return 2 * t[0].rows() * t[1].elements(); },
    }) &&
    RegisterOperation({
        .name = "linear_input_gradient",
        .infer = InferInputGradient,
        .flops = [](const OperationTypes& t, const Attributes&) { return 2 * t[0].rows() * t[1].elements(); },
    }) &&
    RegisterOperation({
        .name = "linear_weight_gradient",
        .infer = InferWeightGradient,
        .flops = [](const OperationTypes& t, const Attributes&) { return 2 * t[0].elements() * t[1].columns(); },
    });

}  // namespace
}  // namespace reprise
