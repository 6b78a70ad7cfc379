// Vectorised softmax cross-entropy of a row of logits.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_SOFTMAX_ROWS_H_
#define REPRISE_RUNTIME_TENSOR_CPU_SOFTMAX_ROWS_H_

#include <cstdint>

namespace reprise {

// Returns -log softmax(logits)[label] and leaves exp(logit - highest) in `logits`, their sum in `sum`. NaN and infinite
// logits make the result NaN or infinite.
double CrossEntropyRow(float* logits, int64_t count, int64_t label, float* sum);

// Turns what CrossEntropyRow left into the gradient, softmax - onehot(label); rounded to bfloat16 values where asked.
void CrossEntropyGradientRow(float* exponentials, int64_t count, int64_t label, float sum, bool round_to_bfloat16);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_SOFTMAX_ROWS_H_
