#include <cmath>
#include <string>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

constexpr double kScale = 0.7978845608028653559;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;
constexpr double kRootOfHalf = 0.70710678118654752440;
constexpr double kDensityAtZero = 0.39894228040143267794;  // 1 / sqrt(2 pi)

template <typename W>
struct Gelu {
  W value;
  W slope;
};

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which keeps its relative accuracy where tanh(u) is near -1.
struct TanhForm {
  template <typename W>
  static Gelu<W> Of(W x) {
    const W u = static_cast<W>(kScale) * (x + static_cast<W>(kCubic) * x * x * x);
    const W e = std::exp(-2 * std::abs(u));
    const W share = (u < 0 ? e : W{1}) / (1 + e);
    if (e == 0) return {u < 0 ? W{0} : x, share};  // the limits, also at the infinities
    const W du = static_cast<W>(kScale) * (1 + static_cast<W>(3 * kCubic) * x * x);
    return {x * share, share + x * 2 * du * (e / ((1 + e) * (1 + e)))};
  }
};

// (1 + erf(z)) / 2 = erfc(-z) / 2, which keeps its relative accuracy where erf(z) is near -1.
struct ErfForm {
  template <typename W>
  static Gelu<W> Of(W x) {
    const W share = std::erfc(x * static_cast<W>(-kRootOfHalf)) / 2;
    const W density = std::exp(x * x / -2) * static_cast<W>(kDensityAtZero);
    if (density == 0) return {x < 0 ? W{0} : x, share};  // the limits, also at the infinities
    return {x * share, share + x * density};
  }
};

template <typename Form>
struct PlainGelu {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    T* g = Output<T>(arguments, 0);
    if (g == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) g[i] = Rounded<T>(Form::Of(Widened(x[i])).value);
  }
};

template <typename Form>
struct PlainGeluGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* dg = Input<T>(arguments, 1);
    T* dx = Output<T>(arguments, 0);
    if (dx == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      dx[i] = Rounded<T>(Widened(dg[i]) * Form::Of(Widened(x[i])).slope);
    }
  }
};

template <typename Form>
struct BiasGelu {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* h = Input<T>(arguments, 0);
    const T* b = Input<T>(arguments, 1);
    T* g = Output<T>(arguments, 0);
    if (g == nullptr) return;
    const int64_t width = spec.inputs[0].columns();
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      g[i] = Rounded<T>(Form::Of(Widened(h[i]) + Widened(b[i % width])).value);
    }
  }
};

template <typename Form>
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
        const Wide<T> value = Widened(dg[i]) * Form::Of(Widened(h[i]) + Widened(b[c])).slope;
        if (dh != nullptr) dh[i] = Rounded<T>(value);
        sum += value;
      }
      if (db != nullptr) Put(db[c], sum, Accumulates(arguments, 1));
    }
  }
};

template <typename Form>
bool Register(const std::string& suffix) {
  return RegisterReference<PlainGelu<Form>>("gelu" + suffix) &&
         RegisterReference<BiasGelu<Form>>("bias_gelu" + suffix) &&
         RegisterReference<PlainGeluGradient<Form>>("gelu" + suffix + "_gradient") &&
         RegisterReference<BiasGeluGradient<Form>>("bias_gelu" + suffix + "_gradient");
}

[[maybe_unused]] const bool registered = Register<TanhForm>("") && Register<ErfForm>("_erf");

}  // namespace
}  // namespace reprise
