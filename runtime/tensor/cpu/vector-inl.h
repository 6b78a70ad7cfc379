// Vectors of float32 from and to float32 or bfloat16 memory; compiled once for each instruction set.
//
//   ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
//     StoreVector(hn::Add(LoadVector(a + i, lanes), LoadVector(b + i, lanes)), sum + i, lanes);
//   });
//
// The last, partial vector goes through a buffer on the stack: it is computed as a whole one whose other lanes are 0.

// Include guard of Highway's kind: the file is read again for each target.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_VECTOR_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_VECTOR_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_VECTOR_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "runtime/tensor/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;

constexpr FloatTag kFloats;

struct AllLanes {};
struct SomeLanes {
  int64_t count;  // of the first lanes; 0 < count < all
};

// Calls function(i, lanes) for each vector of [0, count).
template <typename Function>
HWY_INLINE void ForEachVector(int64_t count, const Function& function) {
  const auto step = static_cast<int64_t>(hn::Lanes(kFloats));
  int64_t i = 0;
  for (; i + step <= count; i += step) function(i, AllLanes());
  if (i < count) function(i, SomeLanes{count - i});
}

HWY_INLINE FloatVector LoadVector(const float* from, AllLanes) { return hn::LoadU(kFloats, from); }

HWY_INLINE FloatVector LoadVector(const BFloat16* from, AllLanes) {
  const hn::Rebind<uint16_t, FloatTag> halves;
  const auto words = hn::PromoteTo(WordTag(), hn::LoadU(halves, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(words));
}

template <typename T>
HWY_INLINE FloatVector LoadVector(const T* from, SomeLanes lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(FloatTag())];
  std::memset(static_cast<void*>(buffer), 0, sizeof(buffer));
  std::memcpy(static_cast<void*>(buffer), from, static_cast<size_t>(lanes.count) * sizeof(T));
  return LoadVector(buffer, AllLanes());
}

// The bits of bfloat16 in the lower halves: nearest, ties to even; NaN stays NaN.
HWY_INLINE hn::Vec<WordTag> RoundedWords(FloatVector v) {
  const WordTag words;
  const auto bits = hn::BitCast(words, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFF))));
  return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), hn::Or(upper, hn::Set(words, 0x40)), rounded);
}

// `v` as it is after a store as T and a load.
template <typename T>
HWY_INLINE FloatVector RoundedTo(FloatVector v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else {
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(RoundedWords(v)));
  }
}

HWY_INLINE void StoreVector(FloatVector v, float* to, AllLanes) { hn::StoreU(v, kFloats, to); }

HWY_INLINE void StoreVector(FloatVector v, BFloat16* to, AllLanes) {
  const hn::Rebind<uint16_t, FloatTag> halves;
  const hn::RebindToSigned<FloatTag> integers;
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, RoundedWords(v))), halves, reinterpret_cast<uint16_t*>(to));
}

template <typename T>
HWY_INLINE void StoreVector(FloatVector v, T* to, SomeLanes lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(FloatTag())];
  StoreVector(v, buffer, AllLanes());
  std::memcpy(static_cast<void*>(to), buffer, static_cast<size_t>(lanes.count) * sizeof(T));
}

// `v` with 0 in the lanes that are not there: for sums.
HWY_INLINE FloatVector OnlyLanes(FloatVector v, AllLanes) { return v; }
HWY_INLINE FloatVector OnlyLanes(FloatVector v, SomeLanes lanes) {
  return hn::IfThenElseZero(hn::FirstN(kFloats, static_cast<size_t>(lanes.count)), v);
}

// Four sums side by side: enough to hide the latency of additions; added in a fixed order.
class RowSum {
 public:
  HWY_INLINE RowSum() : first_(hn::Zero(kFloats)), second_(first_) {}
  HWY_INLINE void Add(FloatVector v) {
    const FloatVector sum = hn::Add(first_, v);
    first_ = second_;
    second_ = sum;
  }
  HWY_INLINE float Total() const { return hn::GetLane(hn::SumOfLanes(kFloats, hn::Add(first_, second_))); }

 private:
  FloatVector first_;
  FloatVector second_;
};

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // REPRISE_RUNTIME_TENSOR_CPU_VECTOR_INL_H_
