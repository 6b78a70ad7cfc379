#include "runtime/tensor/cpu/bfloat16_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/bfloat16_rows.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F>;
using U16 = hn::Rebind<uint16_t, F>;

hn::Vec<F> Load(const BFloat16* from) {
  const auto bits = hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

void Store(hn::Vec<F> value, BFloat16* to) {
  const U32 u32;
  const auto bits = hn::BitCast(u32, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(u32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(u32, 0x7FFF)));
  const auto nan = hn::RebindMask(u32, hn::IsNaN(value));
  const auto result = hn::IfThenElse(nan, hn::Or(high, hn::Set(u32, 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(hn::RebindToSigned<F>(), result)), U16(), reinterpret_cast<uint16_t*>(to));
}

void Widen(const BFloat16* from, float* to, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(Load(from + i), F(), to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void Round(const float* from, const BFloat16* bias, BFloat16* to, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F()));
  int64_t i = 0;
  if (bias == nullptr) {
    for (; i + lanes <= count; i += lanes) Store(hn::LoadU(F(), from + i), to + i);
    for (; i < count; ++i) to[i] = BFloat16(from[i]);
  } else {
    for (; i + lanes <= count; i += lanes) Store(hn::Add(hn::LoadU(F(), from + i), Load(bias + i)), to + i);
    for (; i < count; ++i) to[i] = BFloat16(from[i] + static_cast<float>(bias[i]));
  }
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
