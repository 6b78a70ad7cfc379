#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/normalization.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/added_row-inl.h"
#include "runtime/tensor/cpu/column_sums.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/normalization.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
float MeanOf(AddedRow<T> row, T* sum_row, int64_t width) {
  RowSum sum;
  ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v = row.Load(i, lanes);
    if (sum_row != nullptr) StoreVector(v, sum_row + i, lanes);
    sum.Add(OnlyLanes(v, lanes));
  });
  return sum.Total() / static_cast<float>(width);
}

template <typename T>
float VarianceOf(AddedRow<T> row, float mean, int64_t width) {
  RowSum squares;
  ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector centred = hn::Sub(row.Load(i, lanes), hn::Set(kFloats, mean));
    squares.Add(OnlyLanes(hn::Mul(centred, centred), lanes));
  });
  return squares.Total() / static_cast<float>(width);
}

template <typename T>
void NormalizeRow(AddedRow<T> row, float mean, float rstd, const T* gain, const T* bias, T* y, int64_t width) {
  const FloatVector shift = hn::Set(kFloats, mean);
  const FloatVector scale = hn::Set(kFloats, rstd);
  ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector normalized = hn::Mul(hn::Sub(row.Load(i, lanes), shift), scale);
    StoreVector(hn::MulAdd(normalized, LoadVector(gain + i, lanes), LoadVector(bias + i, lanes)), y + i, lanes);
  });
}

template <typename T>
void ForwardOf(const NormalizeTask& task, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; ++r) {
    const int64_t offset = r * task.width;
    AddedRow<T> row{static_cast<const T*>(task.x) + offset,
                    task.residual == nullptr ? nullptr : static_cast<const T*>(task.residual) + offset};
    T* sum_row = task.sum == nullptr ? nullptr : static_cast<T*>(task.sum) + offset;
    const float mean = MeanOf(row, sum_row, task.width);
    if (sum_row != nullptr) row = {sum_row, nullptr};
    const float rstd = 1 / std::sqrt(VarianceOf(row, mean, task.width) + task.epsilon);
    if (task.y != nullptr) {
      NormalizeRow(row, mean, rstd, static_cast<const T*>(task.gain), static_cast<const T*>(task.bias),
                   static_cast<T*>(task.y) + offset, task.width);
    }
    if (task.mean != nullptr) task.mean[r] = mean;
    if (task.rstd != nullptr) task.rstd[r] = rstd;
  }
}

void Forward(bool bfloat16, const NormalizeTask& task, int64_t first, int64_t last) {
  bfloat16 ? ForwardOf<BFloat16>(task, first, last) : ForwardOf<float>(task, first, last);
}

// One row of the gradient: xhat = (x - mean) rstd, g = dy gain.
template <typename T>
struct GradientRow {
  const T* x;
  const T* dy;
  const T* gain;
  FloatVector mean;
  FloatVector rstd;
  int64_t width;

  template <typename Lanes>
  HWY_INLINE FloatVector Normalized(int64_t i, Lanes lanes) const {
    return hn::Mul(hn::Sub(LoadVector(x + i, lanes), mean), rstd);
  }

  void AddParameters(float* gain_sums, float* bias_sums) const {
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector d = LoadVector(dy + i, lanes);
      StoreVector(hn::MulAdd(d, Normalized(i, lanes), LoadVector(gain_sums + i, lanes)), gain_sums + i, lanes);
      StoreVector(hn::Add(d, LoadVector(bias_sums + i, lanes)), bias_sums + i, lanes);
    });
  }

  // dx = rstd (g - mean(g) - xhat mean(g xhat)) [+ residual]
  void Input(const T* residual, T* dx) const {
    RowSum sum;
    RowSum product_sum;
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector g = hn::Mul(LoadVector(dy + i, lanes), LoadVector(gain + i, lanes));
      sum.Add(OnlyLanes(g, lanes));
      product_sum.Add(OnlyLanes(hn::Mul(g, Normalized(i, lanes)), lanes));
    });
    const FloatVector g_mean = hn::Set(kFloats, sum.Total() / static_cast<float>(width));
    const FloatVector product_mean = hn::Set(kFloats, product_sum.Total() / static_cast<float>(width));
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector g = hn::Mul(LoadVector(dy + i, lanes), LoadVector(gain + i, lanes));
      const FloatVector centred = hn::NegMulAdd(Normalized(i, lanes), product_mean, hn::Sub(g, g_mean));
      const FloatVector value = hn::Mul(centred, rstd);
      StoreVector(residual == nullptr ? value : hn::Add(value, LoadVector(residual + i, lanes)), dx + i, lanes);
    });
  }
};

template <typename T>
void BackwardOf(const NormalizeGradientTask& task, int64_t first, int64_t last, float* gain_sums, float* bias_sums) {
  for (int64_t r = first; r < last; ++r) {
    const int64_t offset = r * task.width;
    const GradientRow<T> row{static_cast<const T*>(task.x) + offset, static_cast<const T*>(task.dy) + offset,
                             static_cast<const T*>(task.gain),       hn::Set(kFloats, task.mean[r]),
                             hn::Set(kFloats, task.rstd[r]),         task.width};
    if (gain_sums != nullptr) row.AddParameters(gain_sums, bias_sums);
    if (task.dx != nullptr) {
      row.Input(task.residual == nullptr ? nullptr : static_cast<const T*>(task.residual) + offset,
                static_cast<T*>(task.dx) + offset);
    }
  }
}

void Backward(bool bfloat16, const NormalizeGradientTask& task, int64_t first, int64_t last, float* gain_sums,
              float* bias_sums) {
  bfloat16 ? BackwardOf<BFloat16>(task, first, last, gain_sums, bias_sums)
           : BackwardOf<float>(task, first, last, gain_sums, bias_sums);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

// layer_norm and add_layer_norm
KernelOr MakeLayerNorm(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const size_t added = spec.inputs.size() > 3 ? 1 : 0;
  const auto epsilon = static_cast<float>(spec.attributes.Real("epsilon"));
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(
      spec, [rows, width, added, epsilon, bfloat16, threads = options.threads](const KernelArguments& arguments) {
        const auto& in = arguments.inputs;
        const auto& out = arguments.outputs;
        const NormalizeTask task{.x = in[0],
                                 .residual = added != 0 ? in[1] : nullptr,
                                 .gain = in[1 + added],
                                 .bias = in[2 + added],
                                 .sum = added != 0 ? out[0] : nullptr,
                                 .y = out[added],
                                 .mean = reinterpret_cast<float*>(out[1 + added]),
                                 .rstd = reinterpret_cast<float*>(out[2 + added]),
                                 .width = width,
                                 .epsilon = epsilon};
        ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(Forward)(bfloat16, task, begin, end);
        });
      });
}

class LayerNormGradient : public Kernel {
 public:
  LayerNormGradient(const KernelSpec& spec, int threads)
      : width_(spec.inputs[0].columns()),
        sums_(spec.inputs[0].rows(), width_),
        has_residual_(spec.inputs.size() > 5),
        bfloat16_(IsBFloat16(spec)),
        threads_(threads) {}

  int64_t scratch_bytes() const override { return 2 * sums_.scratch_bytes(); }

  void Run(const KernelArguments& arguments) const override {
    const auto& in = arguments.inputs;
    const NormalizeGradientTask task{.x = in[0],
                                     .gain = in[1],
                                     .mean = Input<float>(arguments, 2),
                                     .rstd = Input<float>(arguments, 3),
                                     .dy = in[4],
                                     .residual = has_residual_ ? in[5] : nullptr,
                                     .dx = arguments.outputs[0],
                                     .width = width_};
    auto* dgain = Output<float>(arguments, 1);
    auto* dbias = Output<float>(arguments, 2);
    const bool parameters = dgain != nullptr || dbias != nullptr;
    std::byte* bias_scratch = arguments.scratch + sums_.scratch_bytes();
    ParallelFor(threads_, sums_.chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        float* gain_sums = parameters ? sums_.Partial(arguments.scratch, chunk) : nullptr;
        float* bias_sums = parameters ? sums_.Partial(bias_scratch, chunk) : nullptr;
        if (parameters) std::fill_n(gain_sums, width_, 0.0F);
        if (parameters) std::fill_n(bias_sums, width_, 0.0F);
        HWY_DYNAMIC_DISPATCH(Backward)
        (bfloat16_, task, sums_.FirstRow(chunk), sums_.FirstRow(chunk + 1), gain_sums, bias_sums);
      }
    });
    if (dgain != nullptr) sums_.Combine(threads_, arguments.scratch, dgain, Accumulates(arguments, 1));
    if (dbias != nullptr) sums_.Combine(threads_, bias_scratch, dbias, Accumulates(arguments, 2));
  }

 private:
  int64_t width_;
  ColumnSums sums_;
  bool has_residual_;
  bool bfloat16_;
  int threads_;
};

KernelOr MakeLayerNormGradient(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return std::make_unique<LayerNormGradient>(spec, options.threads);
}

[[maybe_unused]] const bool registered = RegisterKernel("layer_norm", KernelKind::kCpu, MakeLayerNorm) &&
                                         RegisterKernel("add_layer_norm", KernelKind::kCpu, MakeLayerNorm) &&
                                         RegisterKernel("layer_norm_gradient", KernelKind::kCpu, MakeLayerNormGradient);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
