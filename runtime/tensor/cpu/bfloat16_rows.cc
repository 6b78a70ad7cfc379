#include "runtime/tensor/cpu/bfloat16_rows.h"

#include "runtime/tensor/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/bfloat16_rows.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target includes this file once for each target.
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

void Widen(const BFloat16* from, float* to, int64_t count) {
  ForEachVector(count,
                [&](int64_t i, auto lanes) HWY_ATTR { StoreVector(LoadVector(from + i, lanes), to + i, lanes); });
}

void Round(const float* from, const BFloat16* bias, BFloat16* to, int64_t count) {
  if (bias == nullptr) {
    ForEachVector(count,
                  [&](int64_t i, auto lanes) HWY_ATTR { StoreVector(LoadVector(from + i, lanes), to + i, lanes); });
    return;
  }
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    StoreVector(hn::Add(LoadVector(from + i, lanes), LoadVector(bias + i, lanes)), to + i, lanes);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {
HWY_EXPORT(Widen);
HWY_EXPORT(Round);
}  // namespace

void WidenRow(const BFloat16* from, float* to, int64_t count) { HWY_DYNAMIC_DISPATCH(Widen)(from, to, count); }

void RoundRow(const float* from, const BFloat16* bias, BFloat16* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Round)(from, bias, to, count);
}

}  // namespace reprise
#endif
