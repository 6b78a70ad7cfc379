#include "runtime/tensor/cuda/column_sums.h"

namespace reprise::cuda {
namespace {

REPRISE_KERNEL void AddPartials(ColumnSums sums, const float* partials, float* result, bool accumulate) {
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  float total = partials[c];
  for (int64_t chunk = 1; chunk < sums.chunks; ++chunk) total += partials[chunk * sums.columns + c];
  Put(result[c], total, accumulate);
}

}  // namespace

void ColumnSums::Combine(const float* partials, float* result, bool accumulate) const {
  Launch({.blocks = BlocksFor(columns), .threads = kThreads}, AddPartials, *this, partials, result, accumulate);
}

}  // namespace reprise::cuda
