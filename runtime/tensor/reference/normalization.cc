#include <cmath>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

// Normalizes one row, whose elements at(column) are of type T, into the outputs from `first_output` on: y, mean, rstd.
template <typename T, typename Row>
void NormalizeRow(const KernelSpec& spec, const KernelArguments& arguments, int first_output, int64_t row,
                  const T* gain, const T* bias, Row at) {
  using W = Wide<T>;
  const int64_t width = spec.inputs[0].columns();
  W sum = 0;
  for (int64_t c = 0; c < width; ++c) sum += Widened(at(c));
  const W mean = sum / static_cast<W>(width);
  W squares = 0;
  for (int64_t c = 0; c < width; ++c) squares += (Widened(at(c)) - mean) * (Widened(at(c)) - mean);
  const W variance = squares / static_cast<W>(width);
  const W rstd = 1 / std::sqrt(variance + static_cast<W>(spec.attributes.Real("epsilon")));
  if (T* y = Output<T>(arguments, first_output); y != nullptr) {
    for (int64_t c = 0; c < width; ++c) {
      const W normalized = (Widened(at(c)) - mean) * rstd;
      y[row * width + c] = Rounded<T>(normalized * Widened(gain[c]) + Widened(bias[c]));
    }
  }
  if (W* means = Output<W>(arguments, first_output + 1); means != nullptr) means[row] = mean;
  if (W* rstds = Output<W>(arguments, first_output + 2); rstds != nullptr) rstds[row] = rstd;
}

struct LayerNorm {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      const T* x = Input<T>(arguments, 0) + row * width;
      NormalizeRow(spec, arguments, 0, row, Input<T>(arguments, 1), Input<T>(arguments, 2),
                   [x](int64_t c) { return x[c]; });
    }
  }
};

struct AddLayerNorm {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    T* sum = Output<T>(arguments, 0);
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      const T* x = Input<T>(arguments, 0) + row * width;
      const T* r = Input<T>(arguments, 1) + row * width;
      const auto at = [x, r](int64_t c) { return Rounded<T>(Widened(x[c]) + Widened(r[c])); };
      for (int64_t c = 0; sum != nullptr && c < width; ++c) sum[row * width + c] = at(c);
      NormalizeRow(spec, arguments, 1, row, Input<T>(arguments, 2), Input<T>(arguments, 3), at);
    }
  }
};

// With xhat = (x - mean) rstd and g = dy gain: dx = rstd (g - mean(g) - xhat mean(g xhat)).
struct LayerNormGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    if (T* dx = Output<T>(arguments, 0); dx != nullptr) InputGradient(spec, arguments, dx);
    ParameterGradients<T>(spec, arguments);
  }

  template <typename T>
  static Wide<T> Normalized(const KernelArguments& arguments, int64_t row, int64_t width, int64_t c) {
    const Wide<T> mean = Input<Wide<T>>(arguments, 2)[row];
    return (Widened(Input<T>(arguments, 0)[row * width + c]) - mean) * Input<Wide<T>>(arguments, 3)[row];
  }

  template <typename T>
  static void InputGradient(const KernelSpec& spec, const KernelArguments& arguments, T* dx) {
    const T* gain = Input<T>(arguments, 1);
    const T* dy = Input<T>(arguments, 4);
    const T* residual = spec.inputs.size() > 5 ? Input<T>(arguments, 5) : nullptr;
    const int64_t width = spec.inputs[0].columns();
    for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
      Wide<T> sum = 0;
      Wide<T> product_sum = 0;
      for (int64_t c = 0; c < width; ++c) {
        const Wide<T> g = Widened(dy[row * width + c]) * Widened(gain[c]);
        sum += g;
        product_sum += g * Normalized<T>(arguments, row, width, c);
      }
      const Wide<T> mean = sum / static_cast<Wide<T>>(width);
      const Wide<T> product_mean = product_sum / static_cast<Wide<T>>(width);
      for (int64_t c = 0; c < width; ++c) {
        const int64_t i = row * width + c;
        const Wide<T> g = Widened(dy[i]) * Widened(gain[c]);
        const Wide<T> centred = g - mean - Normalized<T>(arguments, row, width, c) * product_mean;
        const Wide<T> value = centred * Input<Wide<T>>(arguments, 3)[row];
        dx[i] = Rounded<T>(residual == nullptr ? value : value + Widened(residual[i]));
      }
    }
  }

  template <typename T>
  static void ParameterGradients(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* dy = Input<T>(arguments, 4);
    auto* dgain = Output<Wide<T>>(arguments, 1);
    auto* dbias = Output<Wide<T>>(arguments, 2);
    const int64_t width = spec.inputs[0].columns();
    for (int64_t c = 0; c < width; ++c) {
      Wide<T> gain_sum = 0;
      Wide<T> bias_sum = 0;
      for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
        const Wide<T> g = Widened(dy[row * width + c]);
        gain_sum += g * Normalized<T>(arguments, row, width, c);
        bias_sum += g;
      }
      if (dgain != nullptr) Put(dgain[c], gain_sum, Accumulates(arguments, 1));
      if (dbias != nullptr) Put(dbias[c], bias_sum, Accumulates(arguments, 2));
    }
  }
};

[[maybe_unused]] const bool registered = RegisterReference<LayerNorm>("layer_norm") &&
                                         RegisterReference<AddLayerNorm>("add_layer_norm") &&
                                         RegisterReference<LayerNormGradient>("layer_norm_gradient");

}  // namespace
}  // namespace reprise
