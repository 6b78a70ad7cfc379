#include "runtime/tensor/cpu/softmax_rows.h"

#include <algorithm>
#include <cmath>

#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/softmax_rows.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// Highway's Exp gives 0 for NaN.
V ExpOrNaN(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(F(), x)); }

float Highest(const float* values, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  float highest = values[0];
  int64_t i = 0;
  if (count >= lanes) {
    V vector = hn::LoadU(F(), values);
    for (; i + lanes <= count; i += lanes) vector = hn::Max(vector, hn::LoadU(F(), values + i));
    highest = hn::GetLane(hn::MaxOfLanes(F(), vector));
  }
  for (; i < count; ++i) highest = std::max(highest, values[i]);
  return highest;
}

// exp(values - highest) in place; returns the sum. `count` is at most a few thousand, so that float32 is good.
float Exponentials(float* values, int64_t count, float highest) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  const V high = hn::Set(F(), highest);
  V sum = hn::Zero(F());
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V e = ExpOrNaN(hn::Sub(hn::LoadU(F(), values + i), high));
    hn::StoreU(e, F(), values + i);
    sum = hn::Add(sum, e);
  }
  float total = hn::GetLane(hn::SumOfLanes(F(), sum));
  for (; i < count; ++i) {
    values[i] = hn::GetLane(ExpOrNaN(hn::Set(F(), values[i] - highest)));
    total += values[i];
  }
  return total;
}

double Forward(float* logits, int64_t count, int64_t label, float* sum) {
  constexpr int64_t kBlock = 2048;
  const float highest = Highest(logits, count);
  const double margin = static_cast<double>(highest) - logits[label];
  double total = 0;
  for (int64_t i = 0; i < count; i += kBlock) total += Exponentials(logits + i, std::min(kBlock, count - i), highest);
  *sum = static_cast<float>(total);
  return margin + std::log(total);
}

void Gradient(float* exponentials, int64_t count, int64_t label, float sum, bool round_to_bfloat16) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  const V divisor = hn::Set(F(), sum);
  const float at_label = exponentials[label] / sum - 1;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V p = hn::Div(hn::LoadU(F(), exponentials + i), divisor);
    hn::StoreU(round_to_bfloat16 ? RoundedTo<BFloat16>(p) : p, F(), exponentials + i);
  }
  const auto rounded = [&](float p) { return round_to_bfloat16 ? static_cast<float>(BFloat16(p)) : p; };
  for (; i < count; ++i) exponentials[i] = rounded(exponentials[i] / sum);
  exponentials[label] = rounded(at_label);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {
HWY_EXPORT(Forward);
HWY_EXPORT(Gradient);
}  // namespace

double CrossEntropyRow(float* logits, int64_t count, int64_t label, float* sum) {
  return HWY_DYNAMIC_DISPATCH(Forward)(logits, count, label, sum);
}

void CrossEntropyGradientRow(float* exponentials, int64_t count, int64_t label, float sum, bool round_to_bfloat16) {
  HWY_DYNAMIC_DISPATCH(Gradient)(exponentials, count, label, sum, round_to_bfloat16);
}

}  // namespace reprise
#endif
