#include <cmath>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

template <typename W>
struct Silu {
  W value;
  W slope;
};

// With e = exp(-|x|), 1 / (1 + exp(-x)) is 1 / (1 + e) or, for negative x, e / (1 + e): no overflow, no cancellation.
template <typename W>
Silu<W> SiluOf(W x) {
  const W e = std::exp(-std::abs(x));
  const W share = (x < 0 ? e : W{1}) / (1 + e);
  if (e == 0) return {x < 0 ? W{0} : x, share};  // the limits, also at the infinities
  return {x * share, share + x * (e / ((1 + e) * (1 + e)))};
}

struct SiluMultiply {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* gate = Input<T>(arguments, 0);
    const T* up = Input<T>(arguments, 1);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      y[i] = Rounded<T>(SiluOf(Widened(gate[i])).value * Widened(up[i]));
    }
  }
};

struct SiluMultiplyGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* gate = Input<T>(arguments, 0);
    const T* up = Input<T>(arguments, 1);
    const T* dy = Input<T>(arguments, 2);
    T* dgate = Output<T>(arguments, 0);
    T* dup = Output<T>(arguments, 1);
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      const Silu<Wide<T>> silu = SiluOf(Widened(gate[i]));
      if (dgate != nullptr) dgate[i] = Rounded<T>(Widened(dy[i]) * Widened(up[i]) * silu.slope);
      if (dup != nullptr) dup[i] = Rounded<T>(Widened(dy[i]) * silu.value);
    }
  }
};

[[maybe_unused]] const bool registered = RegisterReference<SiluMultiply>("silu_multiply") &&
                                         RegisterReference<SiluMultiplyGradient>("silu_multiply_gradient");

}  // namespace
}  // namespace reprise
