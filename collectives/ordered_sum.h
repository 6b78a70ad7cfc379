// Sums over ranks, in rank order: the one order that gives every backend the same bits.
//
//   const float* parts[] = {from_rank_0, from_rank_1, from_rank_2};
//   SumInRankOrder(parts, /*accumulate=*/false, count, shard);     // shard[i] = (p0[i] + p1[i]) + p2[i]
//
// Thread-safe. The output may be one of the inputs; it must not overlap them otherwise.
#ifndef REPRISE_COLLECTIVES_ORDERED_SUM_H_
#define REPRISE_COLLECTIVES_ORDERED_SUM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace reprise {

// out[i] = ((inputs[0][i] + inputs[1][i]) + ...), or with `accumulate` out[i] = out[i] + that. At least one input.
void SumInRankOrder(absl::Span<const float* const> inputs, bool accumulate, int64_t count, float* out);
void SumInRankOrder(absl::Span<const double* const> inputs, int64_t count, double* out);

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_ORDERED_SUM_H_
