#include "runtime/tensor/access.h"
#include "runtime/tensor/image_shape.h"

namespace reprise {
namespace {

template <typename T>
void GatherPatches(const KernelSpec& spec, const KernelArguments& arguments) {
  const auto* pixels = Input<float>(arguments, 0);
  T* patches = Output<T>(arguments, 0);
  if (patches == nullptr) return;
  const ImageShape shape(spec);
  for (int64_t row = 0; row < spec.outputs[0].rows(); ++row) {
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      for (int64_t y = 0; y < shape.patch; ++y) {
        const float* from = pixels + shape.FirstPixel(row, channel, y);
        for (int64_t x = 0; x < shape.patch; ++x) *patches++ = static_cast<T>(from[x]);
      }
    }
  }
}

// The element type is the output's: pixels are float32 always.
absl::StatusOr<std::unique_ptr<Kernel>> MakeImagePatches(const KernelSpec& spec, const KernelOptions& /*options*/) {
  switch (spec.outputs[0].dtype) {
    case DType::kBFloat16:
      return MakeFunctionKernel([spec](const KernelArguments& a) { GatherPatches<BFloat16>(spec, a); });
    case DType::kFloat64:
      return MakeFunctionKernel([spec](const KernelArguments& a) { GatherPatches<double>(spec, a); });
    default:
      return MakeFunctionKernel([spec](const KernelArguments& a) { GatherPatches<float>(spec, a); });
  }
}

struct PrependRow {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    const T* row = Input<T>(arguments, 1);
    const T* table = Input<T>(arguments, 2);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const int64_t width = spec.outputs[0].columns();
    const int64_t length = spec.inputs[2].rows();
    for (int64_t i = 0; i < spec.outputs[0].rows(); ++i) {
      const int64_t t = i % length;
      const T* from = t == 0 ? row : x + (i / length * (length - 1) + t - 1) * width;
      for (int64_t c = 0; c < width; ++c) {
        y[i * width + c] = Rounded<T>(Widened(from[c]) + Widened(table[t * width + c]));
      }
    }
  }
};

struct PrependRowGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* dy = Input<T>(arguments, 0);
    const int64_t rows = spec.inputs[0].rows();
    const int64_t width = spec.inputs[0].columns();
    const int64_t length = spec.attributes.Int("sequence_length");
    T* dx = Output<T>(arguments, 0);
    for (int64_t i = 0; dx != nullptr && i < rows; ++i) {
      if (i % length == 0) continue;
      for (int64_t c = 0; c < width; ++c) *dx++ = dy[i * width + c];
    }
    SumOverSequences(dy, rows, length, width, 1, Output<Wide<T>>(arguments, 1), Accumulates(arguments, 1));
    SumOverSequences(dy, rows, length, width, length, Output<Wide<T>>(arguments, 2), Accumulates(arguments, 2));
  }

 private:
  // The first `kept` rows of every sequence, added up.
  template <typename T>
  static void SumOverSequences(const T* dy, int64_t rows, int64_t length, int64_t width, int64_t kept, Wide<T>* sums,
                               bool accumulate) {
    for (int64_t i = 0; sums != nullptr && i < kept * width; ++i) {
      Wide<T> sum = 0;
      for (int64_t first = 0; first < rows; first += length) sum += Widened(dy[first * width + i]);
      Put(sums[i], sum, accumulate);
    }
  }
};

struct FirstRow {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const int64_t width = spec.inputs[0].columns();
    const int64_t stride = spec.attributes.Int("sequence_length") * width;
    for (int64_t i = 0; i < spec.outputs[0].elements(); ++i) y[i] = x[i / width * stride + i % width];
  }
};

struct FirstRowGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* dy = Input<T>(arguments, 0);
    T* dx = Output<T>(arguments, 0);
    if (dx == nullptr) return;
    const int64_t width = spec.inputs[0].columns();
    const int64_t stride = spec.attributes.Int("sequence_length") * width;
    for (int64_t i = 0; i < spec.outputs[0].elements(); ++i) {
      dx[i] = i % stride < width ? dy[i / stride * width + i % stride] : Rounded<T>(0);
    }
  }
};

[[maybe_unused]] const bool registered =
    RegisterKernel("image_patches", KernelKind::kReference, MakeImagePatches) &&
    RegisterReference<PrependRow>("prepend_row") && RegisterReference<PrependRowGradient>("prepend_row_gradient") &&
    RegisterReference<FirstRow>("first_row") && RegisterReference<FirstRowGradient>("first_row_gradient");

}  // namespace
}  // namespace reprise
