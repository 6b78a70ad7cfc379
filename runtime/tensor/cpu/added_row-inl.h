// The row that a norm reads: with or without the residual that is added first. Included once for each target.
#if defined(REPRISE_RUNTIME_TENSOR_CPU_ADDED_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REPRISE_RUNTIME_TENSOR_CPU_ADDED_ROW_INL_H_
#undef REPRISE_RUNTIME_TENSOR_CPU_ADDED_ROW_INL_H_
#else
#define REPRISE_RUNTIME_TENSOR_CPU_ADDED_ROW_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

// A row x, or x + r rounded to T where `r` is not null.
template <typename T>
struct AddedRow {
  const T* x;
  const T* r;

  template <typename Lanes>
  HWY_INLINE FloatVector Load(int64_t i, Lanes lanes) const {
    const FloatVector v = LoadVector(x + i, lanes);
    return r == nullptr ? v : RoundedTo<T>(hn::Add(v, LoadVector(r + i, lanes)));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#endif  // REPRISE_RUNTIME_TENSOR_CPU_ADDED_ROW_INL_H_
