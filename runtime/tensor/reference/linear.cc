// Plain loops for linear and its gradients.
#include "runtime/tensor/access.h"

namespace reprise {
namespace {

// Position of weight (in, out) as stored.
struct WeightIndex {
  int64_t in_stride;
  int64_t out_stride;
  WeightIndex(const KernelSpec& spec, int64_t in, int64_t out) {
    const bool transposed = spec.attributes.Int("transposed") != 0;
    in_stride = transposed ? 1 : out;
    out_stride = transposed ? in : 1;
  }
  int64_t operator()(int64_t i, int64_t o) const { return i * in_stride + o * out_stride; }
};

struct Linear {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* w = Input<T>(arguments, 1);
    const T* bias = spec.inputs.size() > 2 ? Input<T>(arguments, 2) : nullptr;
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const int64_t in = spec.inputs[0].columns();
    const int64_t out = spec.outputs[0].columns();
    const WeightIndex index(spec, in, out);
    for (int64_t r = 0; r < spec.inputs[0].rows(); ++r) {
      for (int64_t o = 0; o < out; ++o) {
        Wide<T> sum = bias == nullptr ? 0 : Widened(bias[o]);
        for (int64_t i = 0; i < in; ++i) sum += Widened(x[r * in + i]) * Widened(w[index(i, o)]);
        y[r * out + o] = Rounded<T>(sum);
      }
    }
  }
};

struct LinearInputGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* dy = Input<T>(arguments, 0);
    const T* w = Input<T>(arguments, 1);
    T* dx = Output<T>(arguments, 0);
    if (dx == nullptr) return;
    const int64_t out = spec.inputs[0].columns();
    const int64_t in = spec.outputs[0].columns();
    const WeightIndex index(spec, in, out);
    for (int64_t r = 0; r < spec.inputs[0].rows(); ++r) {
      for (int64_t i = 0; i < in; ++i) {
        Wide<T> sum = 0;
        for (int64_t o = 0; o < out; ++o) sum += Widened(dy[r * out + o]) * Widened(w[index(i, o)]);
        dx[r * in + i] = Rounded<T>(sum);
      }
    }
  }
};

struct LinearWeightGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* dy = Input<T>(arguments, 1);
    auto* dw = Output<Wide<T>>(arguments, 0);
    if (dw == nullptr) return;
    const int64_t in = spec.inputs[0].columns();
    const int64_t out = spec.inputs[1].columns();
    const WeightIndex index(spec, in, out);
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t o = 0; o < out; ++o) {
        Wide<T> sum = 0;
        for (int64_t r = 0; r < spec.inputs[0].rows(); ++r) sum += Widened(x[r * in + i]) * Widened(dy[r * out + o]);
        Put(dw[index(i, o)], sum, Accumulates(arguments, 0));
      }
    }
  }
};

const bool registered = RegisterReference<Linear>("linear") &&
                        RegisterReference<LinearInputGradient>("linear_input_gradient") &&
                        RegisterReference<LinearWeightGradient>("linear_weight_gradient");

}  // namespace
}  // namespace reprise
