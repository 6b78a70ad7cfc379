// Philox4x32-10 for a vector of groups at once: the bits of runtime/tensor/philox.h. Included once for each target.

// Per-target include guard, as Highway asks.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_PHILOX_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_PHILOX_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "runtime/tensor/philox.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

using PhiloxTag = hwy::HWY_NAMESPACE::ScalableTag<uint32_t>;
using PhiloxVector = hwy::HWY_NAMESPACE::Vec<PhiloxTag>;

#if HWY_TARGET != HWY_SCALAR
// High and low halves of the products of all lanes with `factor`.
HWY_INLINE void MultiplyHighLow(PhiloxVector a, PhiloxVector factor, PhiloxVector& high, PhiloxVector& low) {
  namespace hn = hwy::HWY_NAMESPACE;
  const PhiloxTag u32;
  const hn::RepartitionToWide<PhiloxTag> u64;
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(u32, hn::ShiftRight<32>(hn::BitCast(u64, a))), factor);
  high = hn::OddEven(hn::BitCast(u32, odd), hn::BitCast(u32, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(u32, hn::ShiftLeft<32>(odd)), hn::BitCast(u32, even));
}
#endif

// Writes the bits of groups group, group + 1, ... for one vector of groups: 4 * lanes words, in the order of elements.
HWY_INLINE void PhiloxGroups(RandomKey key, int64_t sequence, int64_t group, uint32_t* bits) {
#if HWY_TARGET == HWY_SCALAR
  const auto words = RandomBits(key, sequence, group);
  for (size_t i = 0; i < 4; ++i) bits[i] = words[i];
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const PhiloxTag u32;
  const PhiloxVector first = hn::Set(u32, static_cast<uint32_t>(group));
  PhiloxVector x0 = hn::Add(first, hn::Iota(u32, 0));
  // Where the low word wraps around within the vector, the high word is one more.
  const PhiloxVector carry = hn::IfThenElseZero(hn::Lt(x0, first), hn::Set(u32, 1));
  PhiloxVector x1 = hn::Add(hn::Set(u32, static_cast<uint32_t>(static_cast<uint64_t>(group) >> 32)), carry);
  PhiloxVector x2 = hn::Set(u32, static_cast<uint32_t>(sequence));
  PhiloxVector x3 = hn::Set(u32, static_cast<uint32_t>(static_cast<uint64_t>(sequence) >> 32));
  const PhiloxVector factor_0 = hn::Set(u32, 0xD2511F53U);
  const PhiloxVector factor_1 = hn::Set(u32, 0xCD9E8D57U);
  for (int round = 0; round < 10; ++round) {
    PhiloxVector high_0 = x0;
    PhiloxVector low_0 = x0;
    PhiloxVector high_1 = x0;
    PhiloxVector low_1 = x0;
    MultiplyHighLow(x0, factor_0, high_0, low_0);
    MultiplyHighLow(x2, factor_1, high_1, low_1);
    x0 = hn::Xor(hn::Xor(high_1, x1), hn::Set(u32, key.low));
    x1 = low_1;
    x2 = hn::Xor(hn::Xor(high_0, x3), hn::Set(u32, key.high));
    x3 = low_0;
    key.low += 0x9E3779B9U;
    key.high += 0xBB67AE85U;
  }
  hn::StoreInterleaved4(x0, x1, x2, x3, u32, bits);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
