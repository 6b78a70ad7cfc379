// Vectorised sums of rows that are float32 or bfloat16.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_ROW_SUMS_H_
#define REPRISE_RUNTIME_TENSOR_CPU_ROW_SUMS_H_

#include <cstdint>

namespace reprise {

// sum[i] = a[i] + b[i], rounded once. All three are of one type; `sum` may be `a` or `b`.
void AddRows(bool bfloat16, const void* a, const void* b, void* sum, int64_t count);

// sums[i] += row[i], in float32.
void AddToSums(bool bfloat16, float* sums, const void* row, int64_t count);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_ROW_SUMS_H_
