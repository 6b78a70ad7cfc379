// Rotary position embedding (Su et al. 2021) of every head, in Llama's half-split order: features i and D/2 + i of a
// head of D turn together, by position x frequency[i] (runtime/tensor/rotary_table.h).
//
//   rotary(x[N, H*D] [, positions i32[N]]; heads, sequence_length T, theta, scaling, inverse) -> y[N, H*D]
//
// The position of row r is r % T, or positions[r], which is at least 0 and less than T. With inverse=1 it turns back,
// which is its gradient. scaling=1 (Llama 3) has factor, low_frequency_factor, high_frequency_factor, original_length.
// In bfloat16 cosines and sines are rounded to bfloat16, as Transformers does; products and sums are float32, rounded
// once.
#include "base/check.h"
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

void CheckAttributes(const Attributes& a) {
  REPRISE_CHECK(a.Real("theta") > 0) << "rotary: theta " << a.Real("theta") << " is not positive";
  const int64_t scaling = a.Int("scaling");
  REPRISE_CHECK(scaling == 0 || scaling == 1) << "rotary: scaling " << scaling << " is neither 0 nor 1";
  if (scaling == 0) return;
  REPRISE_CHECK(a.Real("factor") > 0 && a.Real("low_frequency_factor") > 0 &&
                a.Real("high_frequency_factor") > a.Real("low_frequency_factor") && a.Int("original_length") > 0)
      << "rotary: factors of the scaling do not fit: " << a.ToString();
}

OperationTypes InferRotary(const OperationTypes& t, const Attributes& attributes) {
  const int64_t heads = attributes.Int("heads");
  const int64_t length = attributes.Int("sequence_length");
  CheckTypes("rotary", t,
             (t.size() == 1 || (t.size() == 2 && t[1] == TensorType{DType::kInt32, {t[0].rows()}})) &&
                 IsFloatMatrix(t[0]) && heads > 0 && t[0].columns() % (2 * heads) == 0 && length > 0 &&
                 t[0].rows() % length == 0);
  CheckAttributes(attributes);
  return {t[0]};
}

[[maybe_unused]] const bool registered = RegisterOperation({.name = "rotary", .infer = InferRotary});

}  // namespace
}  // namespace reprise
