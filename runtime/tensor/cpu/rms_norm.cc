#include "runtime/tensor/cpu/rms_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/rms_norm.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/added_row-inl.h"
#include "runtime/tensor/cpu/column_sums.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
float MeanSquare(AddedRow<T> row, T* sum_row, int64_t width) {
  RowSum squares;
  ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector v = row.Load(i, lanes);
    if (sum_row != nullptr) StoreVector(v, sum_row + i, lanes);
    squares.Add(OnlyLanes(hn::Mul(v, v), lanes));
  });
  return squares.Total() / static_cast<float>(width);
}

template <typename T>
void NormalizeRow(AddedRow<T> row, float rstd, const T* gain, T* y, int64_t width) {
  const FloatVector scale = hn::Set(kFloats, rstd);
  ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
    const FloatVector normalized = RoundedTo<T>(hn::Mul(row.Load(i, lanes), scale));
    StoreVector(hn::Mul(LoadVector(gain + i, lanes), normalized), y + i, lanes);
  });
}

template <typename T>
void ForwardOf(const RmsNormTask& task, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; ++r) {
    const int64_t offset = r * task.width;
    AddedRow<T> row{static_cast<const T*>(task.x) + offset,
                    task.residual == nullptr ? nullptr : static_cast<const T*>(task.residual) + offset};
    T* sum_row = task.sum == nullptr ? nullptr : static_cast<T*>(task.sum) + offset;
    const float rstd = 1 / std::sqrt(MeanSquare(row, sum_row, task.width) + task.epsilon);
    if (sum_row != nullptr) row = {sum_row, nullptr};
    if (task.y != nullptr) {
      NormalizeRow(row, rstd, static_cast<const T*>(task.gain), static_cast<T*>(task.y) + offset, task.width);
    }
    if (task.rstd != nullptr) task.rstd[r] = rstd;
  }
}

void Forward(bool bfloat16, const RmsNormTask& task, int64_t first, int64_t last) {
  bfloat16 ? ForwardOf<BFloat16>(task, first, last) : ForwardOf<float>(task, first, last);
}

// One row of the gradient: xhat = x rstd, g = dy gain.
template <typename T>
struct GradientRow {
  const T* x;
  const T* dy;
  const T* gain;
  FloatVector rstd;
  int64_t width;

  template <typename Lanes>
  HWY_INLINE FloatVector Normalized(int64_t i, Lanes lanes) const {
    return hn::Mul(LoadVector(x + i, lanes), rstd);
  }

  // What gain was multiplied with: the rounded xhat.
  void AddGain(float* sums) const {
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector normalized = RoundedTo<T>(Normalized(i, lanes));
      StoreVector(hn::MulAdd(LoadVector(dy + i, lanes), normalized, LoadVector(sums + i, lanes)), sums + i, lanes);
    });
  }

  // dx = rstd (g - xhat mean(g xhat)) [+ residual]
  void Input(const T* residual, T* dx) const {
    RowSum sum;
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector g = hn::Mul(LoadVector(dy + i, lanes), LoadVector(gain + i, lanes));
      sum.Add(OnlyLanes(hn::Mul(g, Normalized(i, lanes)), lanes));
    });
    const FloatVector mean = hn::Set(kFloats, sum.Total() / static_cast<float>(width));
    ForEachVector(width, [&](int64_t i, auto lanes) HWY_ATTR {
      const FloatVector g = hn::Mul(LoadVector(dy + i, lanes), LoadVector(gain + i, lanes));
      const FloatVector value = hn::Mul(hn::NegMulAdd(Normalized(i, lanes), mean, g), rstd);
      StoreVector(residual == nullptr ? value : hn::Add(value, LoadVector(residual + i, lanes)), dx + i, lanes);
    });
  }
};

template <typename T>
void BackwardOf(const RmsNormGradientTask& task, int64_t first, int64_t last, float* gain_sums) {
  for (int64_t r = first; r < last; ++r) {
    const int64_t offset = r * task.width;
    const GradientRow<T> row{static_cast<const T*>(task.x) + offset, static_cast<const T*>(task.dy) + offset,
                             static_cast<const T*>(task.gain), hn::Set(kFloats, task.rstd[r]), task.width};
    if (gain_sums != nullptr) row.AddGain(gain_sums);
    if (task.dx != nullptr) {
      row.Input(task.residual == nullptr ? nullptr : static_cast<const T*>(task.residual) + offset,
                static_cast<T*>(task.dx) + offset);
    }
  }
}

void Backward(bool bfloat16, const RmsNormGradientTask& task, int64_t first, int64_t last, float* gain_sums) {
  bfloat16 ? BackwardOf<BFloat16>(task, first, last, gain_sums) : BackwardOf<float>(task, first, last, gain_sums);
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

// rms_norm and add_rms_norm
KernelOr MakeRmsNorm(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const size_t added = spec.inputs.size() > 2 ? 1 : 0;
  const auto epsilon = static_cast<float>(spec.attributes.Real("epsilon"));
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(
      spec, [rows, width, added, epsilon, bfloat16, threads = options.threads](const KernelArguments& arguments) {
        const auto& in = arguments.inputs;
        const auto& out = arguments.outputs;
        const RmsNormTask task{.x = in[0],
                               .residual = added != 0 ? in[1] : nullptr,
                               .gain = in[1 + added],
                               .sum = added != 0 ? out[0] : nullptr,
                               .y = out[added],
                               .rstd = reinterpret_cast<float*>(out[1 + added]),
                               .width = width,
                               .epsilon = epsilon};
        ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
          HWY_DYNAMIC_DISPATCH(Forward)(bfloat16, task, begin, end);
        });
      });
}

KernelOr MakeRmsNormGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t width = spec.inputs[0].columns();
  const ColumnSums sums(spec.inputs[0].rows(), width);
  const bool has_residual = spec.inputs.size() > 4;
  const bool bfloat16 = IsBFloat16(spec);
  const auto run = [sums, width, has_residual, bfloat16, threads = options.threads](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    const RmsNormGradientTask task{.x = in[0],
                                   .gain = in[1],
                                   .rstd = Input<float>(arguments, 2),
                                   .dy = in[3],
                                   .residual = has_residual ? in[4] : nullptr,
                                   .dx = arguments.outputs[0],
                                   .width = width};
    auto* dgain = Output<float>(arguments, 1);
    ParallelFor(threads, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        float* partial = dgain == nullptr ? nullptr : sums.Partial(arguments.scratch, chunk);
        if (partial != nullptr) std::fill_n(partial, width, 0.0F);
        HWY_DYNAMIC_DISPATCH(Backward)(bfloat16, task, sums.FirstRow(chunk), sums.FirstRow(chunk + 1), partial);
      }
    });
    if (dgain != nullptr) sums.Combine(threads, arguments.scratch, dgain, Accumulates(arguments, 1));
  };
  return MakeFastKernel(spec, run, sums.scratch_bytes());
}

[[maybe_unused]] const bool registered = RegisterKernel("rms_norm", KernelKind::kCpu, MakeRmsNorm) &&
                                         RegisterKernel("add_rms_norm", KernelKind::kCpu, MakeRmsNorm) &&
                                         RegisterKernel("rms_norm_gradient", KernelKind::kCpu, MakeRmsNormGradient);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
