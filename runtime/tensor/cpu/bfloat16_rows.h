// Vectorised conversion of rows between float32 and bfloat16.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_BFLOAT16_ROWS_H_
#define REPRISE_RUNTIME_TENSOR_CPU_BFLOAT16_ROWS_H_

#include <cstdint>

#include "runtime/tensor/bfloat16.h"

namespace reprise {

// Exact.
void WidenRow(const BFloat16* from, float* to, int64_t count);

// Rounds to nearest even, `bias` (null: none) added before. `to` may start where `from` does.
void RoundRow(const float* from, const BFloat16* bias, BFloat16* to, int64_t count);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_BFLOAT16_ROWS_H_
