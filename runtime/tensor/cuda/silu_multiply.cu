// SwiGLU's product: silu(gate) * up.
#include <cmath>

#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/flat.h"

namespace reprise::cuda {
namespace {

struct Silu {
  float value;
  float slope;
};

// With e = exp(-|x|), 1 / (1 + exp(-x)) is 1 / (1 + e) or, for negative x, e / (1 + e): no overflow, no cancellation.
REPRISE_ON_DEVICE Silu SiluOf(float x) {
  const float e = std::exp(-std::abs(x));
  const float share = (x < 0 ? e : 1.0F) / (1 + e);
  if (e == 0) return {x < 0 ? 0.0F : x, share};  // the limits, also at the infinities
  return {x * share, share + x * (e / ((1 + e) * (1 + e)))};
}

template <typename T>
REPRISE_KERNEL void SiluMultiply(const T* gate, const T* up, T* y, int64_t elements) {
  constexpr int kN = kFlat<T>;
  const int64_t i = FlatIndex<T>();
  Pack<T, kN> pack = LoadFlat<kN>(gate, i, elements);
  const Pack<T, kN> factors = LoadFlat<kN>(up, i, elements);
  for (int k = 0; k < kN; ++k) {
    pack.values[k] = Rounded<T>(SiluOf(Widened(pack.values[k])).value * Widened(factors.values[k]));
  }
  StoreFlat(pack, y, i, elements);
}

template <typename T>
struct GradientTask {
  const T* gate;
  const T* up;
  const T* dy;
  T* dgate;  // or null
  T* dup;    // or null
  int64_t elements;
};

template <typename T>
REPRISE_KERNEL void SiluMultiplyGradient(GradientTask<T> task) {
  constexpr int kN = kFlat<T>;
  const int64_t i = FlatIndex<T>();
  Pack<T, kN> gate = LoadFlat<kN>(task.gate, i, task.elements);
  Pack<T, kN> up = LoadFlat<kN>(task.up, i, task.elements);
  const Pack<T, kN> dy = LoadFlat<kN>(task.dy, i, task.elements);
  for (int k = 0; k < kN; ++k) {
    const Silu silu = SiluOf(Widened(gate.values[k]));
    gate.values[k] = Rounded<T>(Widened(dy.values[k]) * Widened(up.values[k]) * silu.slope);
    up.values[k] = Rounded<T>(Widened(dy.values[k]) * silu.value);
  }
  if (task.dgate != nullptr) StoreFlat(gate, task.dgate, i, task.elements);
  if (task.dup != nullptr) StoreFlat(up, task.dup, i, task.elements);
}

KernelOr MakeSiluMultiply(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* y = Output<T>(arguments, 0);
      if (y == nullptr) return;
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, SiluMultiply<T>, Input<T>(arguments, 0),
             Input<T>(arguments, 1), y, elements);
    });
  });
}

KernelOr MakeSiluMultiplyGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const GradientTask<T> task{.gate = Input<T>(arguments, 0),
                                 .up = Input<T>(arguments, 1),
                                 .dy = Input<T>(arguments, 2),
                                 .dgate = Output<T>(arguments, 0),
                                 .dup = Output<T>(arguments, 1),
                                 .elements = elements};
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, SiluMultiplyGradient<T>, task);
    });
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("silu_multiply", KernelKind::kCuda, MakeSiluMultiply) &&
    RegisterKernel("silu_multiply_gradient", KernelKind::kCuda, MakeSiluMultiplyGradient);

}  // namespace
}  // namespace reprise::cuda
