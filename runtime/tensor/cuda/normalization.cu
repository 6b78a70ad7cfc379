// Layer normalization: a block a row; the row is read again, from the cache, rather than held.
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
  const T* bias;
  T* sum;       // with a residual: x + residual, or null
  T* y;         // or null
  float* mean;  // or null
  float* rstd;  // or null
  int64_t width;
  float epsilon;
};

template <typename T, int N>
REPRISE_ON_DEVICE float MeanOfRow(const ForwardTask<T>& task, int64_t first) {
  float sum = 0;
  ForEachPack<N>(task.width, [&](int64_t c) {
    const Pack<T, N> x = task.input.template Load<N>(first + c);
    for (const T& value : x.values) sum += Widened(value);
    if (task.sum != nullptr) StorePack(x, task.sum + first + c);
  });
  return BlockSum(sum) / static_cast<float>(task.width);
}

template <typename T, int N>
REPRISE_ON_DEVICE float VarianceOfRow(const ForwardTask<T>& task, int64_t first, float mean) {
  float squares = 0;
  ForEachPack<N>(task.width, [&](int64_t c) {
    const Pack<T, N> x = task.input.template Load<N>(first + c);
    for (const T& value : x.values) {
      const float centred = Widened(value) - mean;
      squares = std::fma(centred, centred, squares);
    }
  });
  return BlockSum(squares) / static_cast<float>(task.width);
}

template <typename T, int N>
REPRISE_KERNEL void NormalizeRow(ForwardTask<T> task) {
  const int64_t first = BlockX() * task.width;
  const float mean = MeanOfRow<T, N>(task, first);
  const float rstd = 1 / std::sqrt(VarianceOfRow<T, N>(task, first, mean) + task.epsilon);
  if (task.mean != nullptr && Thread() == 0) task.mean[BlockX()] = mean;
  if (task.rstd != nullptr && Thread() == 0) task.rstd[BlockX()] = rstd;
  if (task.y == nullptr) return;
  ForEachPack<N>(task.width, [&](int64_t c) {
    Pack<T, N> y = task.input.template Load<N>(first + c);
    const Pack<T, N> gain = LoadPack<N>(task.gain + c);
    const Pack<T, N> bias = LoadPack<N>(task.bias + c);
    for (int k = 0; k < N; ++k) {
      const float normalized = (Widened(y.values[k]) - mean) * rstd;
      y.values[k] = Rounded<T>(normalized * Widened(gain.values[k]) + Widened(bias.values[k]));
    }
    StorePack(y, task.y + first + c);
  });
}

template <typename T>
struct GradientTask {
  NormGradient<T> row;
  const float* mean;
  const float* rstd;
};

// With xhat = (x - mean) rstd and g = dy gain: dx = rstd (g - mean(g) - xhat mean(g xhat)) [+ residual].
template <typename T, int N>
REPRISE_KERNEL void RowGradient(GradientTask<T> task) {
  const int64_t first = BlockX() * task.row.width;
  const float mean = task.mean[BlockX()];
  const float rstd = task.rstd[BlockX()];
  float sum = 0;
  float product_sum = 0;
  task.row.template ForEach<N>(first, [&](float x, float g) {
    sum += g;
    product_sum = std::fma(g, (x - mean) * rstd, product_sum);
  });
  const float mean_g = BlockSum(sum) / static_cast<float>(task.row.width);
  const float mean_product = BlockSum(product_sum) / static_cast<float>(task.row.width);
  task.row.template Store<N>(first, [&](float x, float g) {
    const float normalized = (x - mean) * rstd;
    return (g - mean_g - normalized * mean_product) * rstd;
  });
}

// Of gain and bias together, which read the same; either may be null.
template <typename T>
REPRISE_KERNEL void ParameterPartials(ColumnSums sums, GradientTask<T> task, float* gain_partials,
                                      float* bias_partials) {
  const int64_t c = ThisItem();
  if (c >= sums.columns) return;
  float gain_sum = 0;
  float bias_sum = 0;
  for (int64_t row = sums.FirstRow(BlockY()); row < sums.FirstRow(BlockY() + 1); ++row) {
    const int64_t i = row * sums.columns + c;
    const float g = Widened(task.row.dy[i]);
    gain_sum = std::fma(g, (Widened(task.row.x[i]) - task.mean[row]) * task.rstd[row], gain_sum);
    bias_sum += g;
  }
  if (gain_partials != nullptr) gain_partials[BlockY() * sums.columns + c] = gain_sum;
  if (bias_partials != nullptr) bias_partials[BlockY() * sums.columns + c] = bias_sum;
}

// layer_norm and add_layer_norm
KernelOr MakeLayerNorm(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const int added = spec.inputs.size() > 3 ? 1 : 0;
  const auto epsilon = static_cast<float>(spec.attributes.Real("epsilon"));
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const ForwardTask<T> task{
          .input = {.x = Input<T>(arguments, 0), .residual = added != 0 ? Input<T>(arguments, 1) : nullptr},
          .gain = Input<T>(arguments, 1 + added),
          .bias = Input<T>(arguments, 2 + added),
          .sum = added != 0 ? Output<T>(arguments, 0) : nullptr,
          .y = Output<T>(arguments, added),
          .mean = Output<float>(arguments, 1 + added),
          .rstd = Output<float>(arguments, 2 + added),
          .width = width,
          .epsilon = epsilon};
      Launch(NormRowShape(rows, width / N::value), NormalizeRow<T, N::value>, task);
    });
  });
}

// dgain and dbias
template <typename T>
void StartParameterGradients(const ColumnSums& sums, const GradientTask<T>& task, const KernelArguments& arguments) {
  auto* dgain = Output<float>(arguments, 1);
  auto* dbias = Output<float>(arguments, 2);
  if (dgain == nullptr && dbias == nullptr) return;
  auto* partials = reinterpret_cast<float*>(arguments.scratch);
  float* gain_partials = dgain == nullptr ? nullptr : partials;
  float* bias_partials = dbias == nullptr ? nullptr : partials + sums.chunks * sums.columns;
  Launch(sums.shape(), ParameterPartials<T>, sums, task, gain_partials, bias_partials);
  if (dgain != nullptr) sums.Combine(gain_partials, dgain, Accumulates(arguments, 1));
  if (dbias != nullptr) sums.Combine(bias_partials, dbias, Accumulates(arguments, 2));
}

KernelOr MakeLayerNormGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool has_residual = spec.inputs.size() > 5;
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    const auto run = [=](const KernelArguments& arguments) {
      const GradientTask<T> task{.row = {.x = Input<T>(arguments, 0),
                                         .gain = Input<T>(arguments, 1),
                                         .dy = Input<T>(arguments, 4),
                                         .residual = has_residual ? Input<T>(arguments, 5) : nullptr,
                                         .dx = Output<T>(arguments, 0),
                                         .width = width},
                                 .mean = Input<float>(arguments, 2),
                                 .rstd = Input<float>(arguments, 3)};
      if (task.row.dx != nullptr) Launch(NormRowShape(sums.rows, width / N::value), RowGradient<T, N::value>, task);
      StartParameterGradients(sums, task, arguments);
    };
    return MakeCudaKernel(spec, run, 2 * sums.scratch_bytes());
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("layer_norm", KernelKind::kCuda, MakeLayerNorm) &&
    RegisterKernel("add_layer_norm", KernelKind::kCuda, MakeLayerNorm) &&
    RegisterKernel("layer_norm_gradient", KernelKind::kCuda, MakeLayerNormGradient);

}  // namespace
}  // namespace reprise::cuda
