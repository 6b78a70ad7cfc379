#include "runtime/tensor/cpu/row_sums.h"

#include "runtime/tensor/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/row_sums.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target includes this file once for each target.
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
void AddOf(const void* a, const void* b, void* sum, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v =
        hn::Add(LoadVector(static_cast<const T*>(a) + i, lanes), LoadVector(static_cast<const T*>(b) + i, lanes));
    StoreVector(v, static_cast<T*>(sum) + i, lanes);
  });
}

void Add(bool bfloat16, const void* a, const void* b, void* sum, int64_t count) {
  bfloat16 ? AddOf<BFloat16>(a, b, sum, count) : AddOf<float>(a, b, sum, count);
}

template <typename T>
void AccumulateOf(float* sums, const void* row, int64_t count) {
  ForEachVector(count, [&](int64_t i, auto lanes) HWY_ATTR {
    StoreVector(hn::Add(LoadVector(sums + i, lanes), LoadVector(static_cast<const T*>(row) + i, lanes)), sums + i,
                lanes);
  });
}

void Accumulate(bool bfloat16, float* sums, const void* row, int64_t count) {
  bfloat16 ? AccumulateOf<BFloat16>(sums, row, count) : AccumulateOf<float>(sums, row, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {
HWY_EXPORT(Add);
HWY_EXPORT(Accumulate);
}  // namespace

void AddRows(bool bfloat16, const void* a, const void* b, void* sum, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Add)(bfloat16, a, b, sum, count);
}

void AddToSums(bool bfloat16, float* sums, const void* row, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Accumulate)(bfloat16, sums, row, count);
}

}  // namespace reprise
#endif
