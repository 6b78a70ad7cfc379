#include <cmath>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

// Normalizes one row, whose elements at(column) are of type T, into the outputs from `first_output` on: y, rstd.
template <typename T, typename Row>
void NormalizeRow(const KernelSpec& spec, const KernelArguments& arguments, int first_output, int64_t row,
                  const T* gain, Row at) {
  using W = Wide<T>;
  const int64_t width = spec.inputs[0].columns();
  W squares = 0;
  for (int64_t c = 0; c < width; ++c) squares += Widened(at(c)) * Widened(at(c));
  const W mean_square = squares / static_cast<W>(width);
  const W rstd = 1 / std::sqrt(mean_square + static_cast<W>(spec.attributes.Real("epsilon")));
  if (T* y = Output<T>(arguments, first_output); y != nullptr) {
    for (int64_t c = 0; c < width; ++c) {
      const T normalized = Rounded<T>(Widened(at(c)) * rstd);
      y[row * width + c] = Rounded<T>(Widened(gain[c]) * Widened(normalized));
    }
  }
  if (W* rstds = Output<W>(arguments, first_output + 1); rstds != nullptr) rstds[row] = rstd;
}

struct RmsNorm {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      const T* x = Input<T>(arguments, 0) + row * width;
      NormalizeRow(spec, arguments, 0, row, Input<T>(arguments, 1), [x](int64_t c) { return x[c]; });
    }
  }
};

struct AddRmsNorm {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    T* sum = Output<T>(arguments, 0);
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      const T* x = Input<T>(arguments, 0) + row * width;
      const T* r = Input<T>(arguments, 1) + row * width;
      const auto at = [x, r](int64_t c) { return Rounded<T>(Widened(x[c]) + Widened(r[c])); };
      for (int64_t c = 0; sum != nullptr && c < width; ++c) sum[row * width + c] = at(c);
      NormalizeRow(spec, arguments, 1, row, Input<T>(arguments, 2), at);
    }
  }
};

// With xhat = x rstd and g = dy gain: dx = rstd (g - xhat mean(g xhat)). dgain sums what gain was multiplied with: the
// rounded xhat.
struct RmsNormGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    if (T* dx = Output<T>(arguments, 0); dx != nullptr) InputGradient(spec, arguments, dx);
    if (auto* dgain = Output<Wide<T>>(arguments, 1); dgain != nullptr) GainGradient<T>(spec, arguments, dgain);
  }

  template <typename T>
  static Wide<T> Normalized(const KernelArguments& arguments, int64_t row, int64_t width, int64_t c) {
    return Widened(Input<T>(arguments, 0)[row * width + c]) * Input<Wide<T>>(arguments, 2)[row];
  }

  template <typename T>
  static void InputGradient(const KernelSpec& spec, const KernelArguments& arguments, T* dx) {
    const T* gain = Input<T>(arguments, 1);
    const T* dy = Input<T>(arguments, 3);
    const T* residual = spec.inputs.size() > 4 ? Input<T>(arguments, 4) : nullptr;
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      const auto g = [&](int64_t c) { return Widened(dy[row * width + c]) * Widened(gain[c]); };
      Wide<T> sum = 0;
      for (int64_t c = 0; c < width; ++c) sum += g(c) * Normalized<T>(arguments, row, width, c);
      const Wide<T> mean = sum / static_cast<Wide<T>>(width);
      for (int64_t c = 0; c < width; ++c) {
        const int64_t i = row * width + c;
        const Wide<T> rest = g(c) - Normalized<T>(arguments, row, width, c) * mean;
        const Wide<T> value = rest * Input<Wide<T>>(arguments, 2)[row];
        dx[i] = Rounded<T>(residual == nullptr ? value : value + Widened(residual[i]));
      }
    }
  }

  template <typename T>
  static void GainGradient(const KernelSpec& spec, const KernelArguments& arguments, Wide<T>* dgain) {
    const T* dy = Input<T>(arguments, 3);
    const int64_t width = spec.inputs[0].columns();
    for (int64_t c = 0; c < width; ++c) {
      Wide<T> sum = 0;
      for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
        const T normalized = Rounded<T>(Normalized<T>(arguments, row, width, c));
        sum += Widened(dy[row * width + c]) * Widened(normalized);
      }
      Put(dgain[c], sum, Accumulates(arguments, 1));
    }
  }
};

[[maybe_unused]] const bool registered = RegisterReference<RmsNorm>("rms_norm") &&
                                         RegisterReference<AddRmsNorm>("add_rms_norm") &&
                                         RegisterReference<RmsNormGradient>("rms_norm_gradient");

}  // namespace
}  // namespace reprise
