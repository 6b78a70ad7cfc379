// RMS norm: a block a row; the row is read again, from the cache, rather than held.
#include <cmath>

#include "runtime/tensor/cuda/block_sum.h"
#include "runtime/tensor/cuda/column_sums.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/norm_row.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {
namespace {

template <typename T>
struct ForwardTask {
  NormInput<T> input;
  const T* gain;
  T* sum;       // with a residual: x + residual, or null
  T* y;         // or null
  float* rstd;  // or null
  int64_t width;
  float epsilon;
};

template <typename T, int N>
REPRISE_KERNEL void NormalizeRow(ForwardTask<T> task) {
  const int64_t first = BlockX() * task.width;
  float squares = 0;
  ForEachPack<N>(task.width, [&](int64_t c) {
    const Pack<T, N> x = task.input.template Load<N>(first + c);
    for (const T& value : x.values) squares = std::fma(Widened(value), Widened(value), squares);
    if (task.sum != nullptr) StorePack(x, task.sum + first + c);
  });
  const float mean_square = BlockSum(squares) / static_cast<float>(task.width);
  const float rstd = 1 / std::sqrt(mean_square + task.epsilon);
  if (task.rstd != nullptr && Thread() == 0) task.rstd[BlockX()] = rstd;
  if (task.y == nullptr) return;
  ForEachPack<N>(task.width, [&](int64_t c) {
    Pack<T, N> y = task.input.template Load<N>(first + c);
    const Pack<T, N> gain = LoadPack<N>(task.gain + c);
    for (int k = 0; k < N; ++k) {
      const T normalized = Rounded<T>(Widened(y.values[k]) * rstd);
      y.values[k] = Rounded<T>(Widened(gain.values[k]) * Widened(normalized));
    }
    StorePack(y, task.y + first + c);
  });
}

template <typename T>
struct GradientTask {
  NormGradient<T> row;
  const float* rstd;
};

// With xhat = x rstd and g = dy gain: dx = rstd (g - xhat mean(g xhat)) [+ residual].
template <typename T, int N>
REPRISE_KERNEL void RowGradient(GradientTask<T> task) {
  const int64_t first = BlockX() * task.row.width;
  const float rstd = task.rstd[BlockX()];
  float sum = 0;
  task.row.template ForEach<N>(first, [&](float x, float g) { sum = std::fma(g, x * rstd, sum); });
  const float mean = BlockSum(sum) / static_cast<float>(task.row.width);
  task.row.template Store<N>(first, [&](float x, float g) { return std::fma(x * -rstd, mean, g) * rstd; });
}

// dgain sums what gain was multiplied with: the rounded xhat.
template <typename T>
REPRISE_KERNEL void GainPartials(ColumnSums sums, GradientTask<T> task, float* partials) {
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  float sum = 0;
  for (int64_t row = sums.FirstRow(BlockY()); row < sums.FirstRow(BlockY() + 1); ++row) {
    const int64_t i = row * sums.columns + c;
    const T normalized = Rounded<T>(Widened(task.row.x[i]) * task.rstd[row]);
    sum = std::fma(Widened(task.row.dy[i]), Widened(normalized), sum);
  }
  partials[BlockY() * sums.columns + c] = sum;
}

// rms_norm and add_rms_norm
KernelOr MakeRmsNorm(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const int added = spec.inputs.size() > 2 ? 1 : 0;
  const auto epsilon = static_cast<float>(spec.attributes.Real("epsilon"));
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const ForwardTask<T> task{
          .input = {.x = Input<T>(arguments, 0), .residual = added != 0 ? Input<T>(arguments, 1) : nullptr},
          .gain = Input<T>(arguments, 1 + added),
          .sum = added != 0 ? Output<T>(arguments, 0) : nullptr,
          .y = Output<T>(arguments, added),
          .rstd = Output<float>(arguments, 1 + added),
          .width = width,
          .epsilon = epsilon};
      Launch(NormRowShape(rows, width / N::value), NormalizeRow<T, N::value>, task);
    });
  });
}

KernelOr MakeRmsNormGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool has_residual = spec.inputs.size() > 4;
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    const auto run = [=](const KernelArguments& arguments) {
      const GradientTask<T> task{.row = {.x = Input<T>(arguments, 0),
                                         .gain = Input<T>(arguments, 1),
                                         .dy = Input<T>(arguments, 3),
                                         .residual = has_residual ? Input<T>(arguments, 4) : nullptr,
                                         .dx = Output<T>(arguments, 0),
                                         .width = width},
                                 .rstd = Input<float>(arguments, 2)};
      if (task.row.dx != nullptr) Launch(NormRowShape(sums.rows, width / N::value), RowGradient<T, N::value>, task);
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
