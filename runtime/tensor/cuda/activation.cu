// GELU in its tanh form and its exact one, by itself and after a bias. The gradient of the bias sums what the gradient
// of h is rounded from: one pass over both, a thread a column of a chunk of rows.
#include <cmath>
#include <string>

#include "runtime/tensor/cuda/column_sums.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/flat.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {
namespace {

constexpr float kScale = 0.7978845608028653559F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
constexpr float kThriceCubic = 0.134145F;
constexpr float kRootOfHalf = 0.70710678118654752440F;
constexpr float kDensityAtZero = 0.39894228040143267794F;  // 1 / sqrt(2 pi)

struct Gelu {
  float value;
  float slope;
};

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which keeps its relative accuracy where tanh(u) is near -1.
struct TanhForm {
  REPRISE_ON_DEVICE static Gelu Of(float x) {
    const float u = kScale * (x + kCubic * x * x * x);
    const float e = std::exp(-2 * std::abs(u));
    const float share = (u < 0 ? e : 1.0F) / (1 + e);
    if (e == 0) return {u < 0 ? 0.0F : x, share};  // the limits, also at the infinities
    const float du = kScale * (1 + kThriceCubic * x * x);
    return {x * share, share + x * 2 * du * (e / ((1 + e) * (1 + e)))};
  }
};

// (1 + erf(z)) / 2 = erfc(-z) / 2, which keeps its relative accuracy where erf(z) is near -1.
struct ErfForm {
  REPRISE_ON_DEVICE static Gelu Of(float x) {
    const float share = std::erfc(-kRootOfHalf * x) / 2;
    const float density = std::exp(x * x / -2) * kDensityAtZero;
    if (density == 0) return {x < 0 ? 0.0F : x, share};  // the limits, also at the infinities
    return {x * share, share + x * density};
  }
};

template <typename Form, typename T>
REPRISE_KERNEL void GeluOf(const T* x, T* g, int64_t elements) {
  constexpr int kN = kFlat<T>;
  const int64_t i = FlatIndex<T>();
  Pack<T, kN> pack = LoadFlat<kN>(x, i, elements);
  for (int k = 0; k < kN; ++k) pack.values[k] = Rounded<T>(Form::Of(Widened(pack.values[k])).value);
  StoreFlat(pack, g, i, elements);
}

template <typename Form, typename T>
REPRISE_KERNEL void GeluGradient(const T* x, const T* dg, T* dx, int64_t elements) {
  constexpr int kN = kFlat<T>;
  const int64_t i = FlatIndex<T>();
  Pack<T, kN> pack = LoadFlat<kN>(x, i, elements);
  const Pack<T, kN> outer = LoadFlat<kN>(dg, i, elements);
  for (int k = 0; k < kN; ++k) {
    pack.values[k] = Rounded<T>(Widened(outer.values[k]) * Form::Of(Widened(pack.values[k])).slope);
  }
  StoreFlat(pack, dx, i, elements);
}

// A block a row.
template <typename Form, typename T, int N>
REPRISE_KERNEL void BiasGelu(const T* h, const T* bias, T* g, int64_t width) {
  const int64_t first = BlockX() * width;
  ForEachPack<N>(width, [&](int64_t c) {
    Pack<T, N> pack = LoadPack<N>(h + first + c);
    const Pack<T, N> added = LoadPack<N>(bias + c);
    for (int k = 0; k < N; ++k) {
      pack.values[k] = Rounded<T>(Form::Of(Widened(pack.values[k]) + Widened(added.values[k])).value);
    }
    StorePack(pack, g + first + c);
  });
}

template <typename T>
struct BiasGradientTask {
  const T* h;
  const T* bias;
  const T* dg;
  T* dh;            // or null
  float* partials;  // or null
};

template <typename Form, typename T>
REPRISE_KERNEL void BiasGeluGradient(ColumnSums sums, BiasGradientTask<T> task) {
  constexpr int kRows = 4;  // read before any of them is written, so that the loads are under way together
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  const float bias = Widened(task.bias[c]);
  const int64_t end = sums.FirstRow(BlockY() + 1);
  float sum = 0;
  for (int64_t row = sums.FirstRow(BlockY()); row < end; row += kRows) {
    const int64_t first = row * sums.columns + c;
    T h[kRows];
    T dg[kRows];
    for (int k = 0; k < kRows; ++k) {
      if (row + k < end) h[k] = task.h[first + k * sums.columns];
      if (row + k < end) dg[k] = task.dg[first + k * sums.columns];
    }
    for (int k = 0; k < kRows; ++k) {
      if (row + k >= end) continue;
      const float value = Widened(dg[k]) * Form::Of(Widened(h[k]) + bias).slope;
      if (task.dh != nullptr) task.dh[first + k * sums.columns] = Rounded<T>(value);
      sum += value;
    }
  }
  if (task.partials != nullptr) task.partials[BlockY() * sums.columns + c] = sum;
}

template <typename Form>
KernelOr MakeGelu(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* g = Output<T>(arguments, 0);
      if (g == nullptr) return;
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, GeluOf<Form, T>, Input<T>(arguments, 0), g,
             elements);
    });
  });
}

template <typename Form>
KernelOr MakeGeluGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* dx = Output<T>(arguments, 0);
      if (dx == nullptr) return;
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, GeluGradient<Form, T>, Input<T>(arguments, 0),
             Input<T>(arguments, 1), dx, elements);
    });
  });
}

template <typename Form>
KernelOr MakeBiasGelu(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* g = Output<T>(arguments, 0);
      if (g == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(width / N::value)}, BiasGelu<Form, T, N::value>,
             Input<T>(arguments, 0), Input<T>(arguments, 1), g, width);
    });
  });
}

template <typename Form>
KernelOr MakeBiasGeluGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const ColumnSums sums(spec.inputs[0].rows(), spec.inputs[0].columns());
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    const auto run = [=](const KernelArguments& arguments) {
      auto* db = Output<float>(arguments, 1);
      auto* partials = db == nullptr ? nullptr : reinterpret_cast<float*>(arguments.scratch);
      const BiasGradientTask<T> task{.h = Input<T>(arguments, 0),
                                     .bias = Input<T>(arguments, 1),
                                     .dg = Input<T>(arguments, 2),
                                     .dh = Output<T>(arguments, 0),
                                     .partials = partials};
      Launch(sums.shape(), BiasGeluGradient<Form, T>, sums, task);
      if (db != nullptr) sums.Combine(partials, db, Accumulates(arguments, 1));
    };
    return MakeCudaKernel(spec, run, sums.scratch_bytes());
  });
}

template <typename Form>
bool Register(const std::string& suffix) {
  return RegisterKernel("gelu" + suffix, KernelKind::kCuda, MakeGelu<Form>) &&
         RegisterKernel("bias_gelu" + suffix, KernelKind::kCuda, MakeBiasGelu<Form>) &&
         RegisterKernel("gelu" + suffix + "_gradient", KernelKind::kCuda, MakeGeluGradient<Form>) &&
         RegisterKernel("bias_gelu" + suffix + "_gradient", KernelKind::kCuda, MakeBiasGeluGradient<Form>);
}

[[maybe_unused]] const bool registered = Register<TanhForm>("") && Register<ErfForm>("_erf");

}  // namespace
}  // namespace reprise::cuda
