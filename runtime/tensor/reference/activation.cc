#include <cmath>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

constexpr double kScale = 0.7978845608028653559;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which keeps its relative accuracy where tanh(u) is near -1.
template <typename W>
struct Gelu {
  W value;
  W slope;
};

template <typename W>
Gelu<W> GeluOf(W x) {
  const W u = static_cast<W>(kScale) * (x + static_cast<W>(kCubic) * x * x * x);
  const W e = std::exp(-2 * std::abs(u));
  const W share = (u < 0 ? e : W{1}) / (1 + e);
  if (e == 0) return {u < 0 ? W{0} : x, share};  // the limits, also at the infinities
  const W du = static_cast<W>(kScale) * (1 + static_cast<W>(3 * kCubic) * x * x);
  return {x * share, share + x * 2 * du * (e / ((1 + e) * (1 + e)))};
}

struct PlainGelu {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    T* g = Output<T>(arguments, 0);
    if (g == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) g[i] = Rounded<T>(GeluOf(Widened(x[i])).value);
  }
};

struct PlainGeluGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* dg = Input<T>(arguments, 1);
    T* dx = Output<T>(arguments, 0);
    if (dx == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      dx[i] = Rounded<T>(Widened(dg[i]) * GeluOf(Widened(x[i])).slope);
    }
  }
};

struct BiasGelu {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* h = Input<T>(arguments, 0);
    const T* b = Input<T>(arguments, 1);
    T* g = Output<T>(arguments, 0);
    if (g == nullptr) return;
    const int64_t width = spec.inputs[0].columns();
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      g[i] = Rounded<T>(GeluOf(Widened(h[i]) + Widened(b[i % width])).value);
    }
  }
};

struct BiasGeluGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* h = Input<T>(arguments, 0);
    const T* b = Input<T>(arguments, 1);
    const T* dg = Input<T>(arguments, 2);
    T* dh = Output<T>(arguments, 0);
    auto* db = Output<Wide<T>>(arguments, 1);
    const int64_t width = spec.inputs[0].columns();
    for (int64_t c = 0; c < width; ++c) {
      Wide<T> sum = 0;
      for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
        const int64_t i = row * width + c;
        const Wide<T> value = Widened(dg[i]) * GeluOf(Widened(h[i]) + Widened(b[c])).slope;
        if (dh != nullptr) dh[i] = Rounded<T>(value);
        sum += value;
      }
      if (db != nullptr) Put(db[c], sum, Accumulates(arguments, 1));
    }
  }
};

[[maybe_unused]] const bool registered =
    RegisterReference<PlainGelu>("gelu") && RegisterReference<PlainGeluGradient>("gelu_gradient") &&
    RegisterReference<BiasGelu>("bias_gelu") && RegisterReference<BiasGeluGradient>("bias_gelu_gradient");

}  // namespace
}  // namespace reprise
