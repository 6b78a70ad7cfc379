// RMS norm: a block a row; the row is read again, from the cache, rather than held.
#include <cmath>

#include "runtime/tensor/cuda/block_sum.h"
#include "runtime/tensor/cuda/column_sums.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {
namespace {

template <typename T>
struct ForwardTask {
  const T* x;
  const T* residual;  // or null
  const T* gain;
  T* sum;       // with a residual: x + residual, or null
  T* y;         // or null
  float* rstd;  // or null
  int64_t width;
  float epsilon;
};

// x, or x + residual as it is stored.
template <int N, typename T>
REPRISE_ON_DEVICE Pack<T, N> LoadSum(const ForwardTask<T>& task, int64_t i) {
  Pack<T, N> x = LoadPack<N>(task.x + i);
  if (task.residual == nullptr) return x;
  const Pack<T, N> residual = LoadPack<N>(task.residual + i);
  for (int k = 0; k < N; ++k) x.values[k] = Rounded<T>(Widened(x.values[k]) + Widened(residual.values[k]));
  return x;
}

template <typename T, int N>
REPRISE_KERNEL void NormalizeRow(ForwardTask<T> task) {
  const int64_t first = BlockX() * task.width;
  const int64_t stride = int64_t{N} * Threads();
  float squares = 0;
  for (int64_t c = int64_t{N} * Thread(); c < task.width; c += stride) {
    const Pack<T, N> x = LoadSum<N>(task, first + c);
    for (const T& value : x.values) squares = std::fma(Widened(value), Widened(value), squares);
    if (task.sum != nullptr) StorePack(x, task.sum + first + c);
  }
  const float mean_square = BlockSum(squares) / static_cast<float>(task.width);
  const float rstd = 1 / std::sqrt(mean_square + task.epsilon);
  if (task.rstd != nullptr && Thread() == 0) task.rstd[BlockX()] = rstd;
  if (task.y == nullptr) return;
  for (int64_t c = int64_t{N} * Thread(); c < task.width; c += stride) {
    Pack<T, N> y = LoadSum<N>(task, first + c);
    const Pack<T, N> gain = LoadPack<N>(task.gain + c);
    for (int k = 0; k < N; ++k) {
      const T normalized = Rounded<T>(Widened(y.values[k]) * rstd);
      y.values[k] = Rounded<T>(Widened(gain.values[k]) * Widened(normalized));
    }
    StorePack(y, task.y + first + c);
  }
}

template <typename T>
struct GradientTask {
  const T* x;
  const T* gain;
  const float* rstd;
  const T* dy;
  const T* residual;  // added to dx, or null
  T* dx;
  int64_t width;
};

// With xhat = x rstd and g = dy gain: dx = rstd (g - xhat mean(g xhat)) [+ residual].
template <typename T, int N>
REPRISE_KERNEL void RowGradient(GradientTask<T> task) {
  const int64_t first = BlockX() * task.width;
  const int64_t stride = int64_t{N} * Threads();
  const float rstd = task.rstd[BlockX()];
  float sum = 0;
  for (int64_t c = int64_t{N} * Thread(); c < task.width; c += stride) {
    const Pack<T, N> x = LoadPack<N>(task.x + first + c);
    const Pack<T, N> dy = LoadPack<N>(task.dy + first + c);
    const Pack<T, N> gain = LoadPack<N>(task.gain + c);
    for (int k = 0; k < N; ++k) {
      sum = std::fma(Widened(dy.values[k]) * Widened(gain.values[k]), Widened(x.values[k]) * rstd, sum);
    }
  }
  const float mean = BlockSum(sum) / static_cast<float>(task.width);
  for (int64_t c = int64_t{N} * Thread(); c < task.width; c += stride) {
    const Pack<T, N> x = LoadPack<N>(task.x + first + c);
    const Pack<T, N> dy = LoadPack<N>(task.dy + first + c);
    const Pack<T, N> gain = LoadPack<N>(task.gain + c);
    Pack<T, N> residual{};
    if (task.residual != nullptr) residual = LoadPack<N>(task.residual + first + c);
    Pack<T, N> dx;
    for (int k = 0; k < N; ++k) {
      const float g = Widened(dy.values[k]) * Widened(gain.values[k]);
      const float value = std::fma(Widened(x.values[k]) * -rstd, mean, g) * rstd;
      dx.values[k] = Rounded<T>(task.residual == nullptr ? value : value + Widened(residual.values[k]));
    }
    StorePack(dx, task.dx + first + c);
  }
}

// dgain sums what gain was multiplied with: the rounded xhat.
template <typename T>
REPRISE_KERNEL void GainPartials(ColumnSums sums, GradientTask<T> task, float* partials) {
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  float sum = 0;
  for (int64_t row = sums.FirstRow(BlockY()); row < sums.FirstRow(BlockY() + 1); ++row) {
    const int64_t i = row * sums.columns + c;
    const T normalized = Rounded<T>(Widened(task.x[i]) * task.rstd[row]);
    sum = std::fma(Widened(task.dy[i]), Widened(normalized), sum);
  }
  partials[BlockY() * sums.columns + c] = sum;
}

LaunchShape RowShape(int64_t rows, int64_t packs) {
  return {.blocks = rows, .threads = ThreadsFor(packs), .shared_bytes = kBlockSumBytes};
}

// rms_norm and add_rms_norm
KernelOr MakeRmsNorm(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const int added = spec.inputs.size() > 2 ? 1 : 0;
  const auto epsilon = static_cast<float>(spec.attributes.Real("epsilon"));
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const ForwardTask<T> task{.x = Input<T>(arguments, 0),
                                .residual = added != 0 ? Input<T>(arguments, 1) : nullptr,
                                .gain = Input<T>(arguments, 1 + added),
                                .sum = added != 0 ? Output<T>(arguments, 0) : nullptr,
                                .y = Output<T>(arguments, added),
                                .rstd = Output<float>(arguments, 1 + added),
                                .width = width,
                                .epsilon = epsilon};
      Launch(RowShape(rows, width / N::value), NormalizeRow<T, N::value>, task);
    });
  });
}

KernelOr MakeRmsNormGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool has_residual = spec.inputs.size() > 4;
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    const auto run = [=](const KernelArguments& arguments) {
      const GradientTask<T> task{.x = Input<T>(arguments, 0),
                                 .gain = Input<T>(arguments, 1),
                                 .rstd = Input<float>(arguments, 2),
                                 .dy = Input<T>(arguments, 3),
                                 .residual = has_residual ? Input<T>(arguments, 4) : nullptr,
                                 .dx = Output<T>(arguments, 0),
                                 .width = width};
      if (task.dx != nullptr) Launch(RowShape(sums.rows, width / N::value), RowGradient<T, N::value>, task);
      auto* dgain = Output<float>(arguments, 1);
      if (dgain == nullptr) return;
      auto* partials = reinterpret_cast<float*>(arguments.scratch);
      Launch(sums.shape(), GainPartials<T>, sums, task, partials);
      sums.Combine(partials, dgain, Accumulates(arguments, 1));
    };
    return MakeCudaKernel(spec, run, sums.scratch_bytes());
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("rms_norm", KernelKind::kCuda, MakeRmsNorm) &&
                                         RegisterKernel("add_rms_norm", KernelKind::kCuda, MakeRmsNorm) &&
                                         RegisterKernel("rms_norm_gradient", KernelKind::kCuda, MakeRmsNormGradient);

}  // namespace
}  // namespace reprise::cuda
