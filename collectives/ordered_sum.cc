#include "collectives/ordered_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/ordered_sum.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Four vectors at a time: enough independent sums to hide the latency of an addition.
void SumFloats(const float* const* inputs, int ranks, bool accumulate, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const float* first = inputs[0] + i;
    auto s0 = hn::LoadU(d, first);
    auto s1 = hn::LoadU(d, first + lanes);
    auto s2 = hn::LoadU(d, first + 2 * lanes);
    auto s3 = hn::LoadU(d, first + 3 * lanes);
    for (int rank = 1; rank < ranks; ++rank) {
      const float* next = inputs[rank] + i;
      s0 = hn::Add(s0, hn::LoadU(d, next));
      s1 = hn::Add(s1, hn::LoadU(d, next + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, next + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, next + 3 * lanes));
    }
    float* to = out + i;
    if (accumulate) {
      s0 = hn::Add(hn::LoadU(d, to), s0);
      s1 = hn::Add(hn::LoadU(d, to + lanes), s1);
      s2 = hn::Add(hn::LoadU(d, to + 2 * lanes), s2);
      s3 = hn::Add(hn::LoadU(d, to + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, to);
    hn::StoreU(s1, d, to + lanes);
    hn::StoreU(s2, d, to + 2 * lanes);
    hn::StoreU(s3, d, to + 3 * lanes);
  }
  for (; i < count; ++i) {
    float sum = inputs[0][i];
    for (int rank = 1; rank < ranks; ++rank) sum += inputs[rank][i];
    out[i] = accumulate ? out[i] + sum : sum;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {

HWY_EXPORT(SumFloats);

void SumInRankOrder(absl::Span<const float* const> inputs, bool accumulate, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(SumFloats)(inputs.data(), static_cast<int>(inputs.size()), accumulate, count, out);
}

void SumInRankOrder(absl::Span<const double* const> inputs, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    double sum = inputs[0][i];
    for (size_t rank = 1; rank < inputs.size(); ++rank) sum += inputs[rank][i];
    out[i] = sum;
  }
}

}  // namespace reprise
#endif  // HWY_ONCE
