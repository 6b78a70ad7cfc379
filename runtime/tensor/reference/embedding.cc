#include <algorithm>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

struct Embedding {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const auto* tokens = Input<int32_t>(arguments, 0);
    const T* token_table = Input<T>(arguments, 1);
    const T* position_table = spec.inputs.size() >= 3 ? Input<T>(arguments, 2) : nullptr;
    const auto* at = spec.inputs.size() == 4 ? Input<int32_t>(arguments, 3) : nullptr;
    T* x = Output<T>(arguments, 0);
    if (x == nullptr) return;
    const int64_t width = spec.inputs[1].columns();
    const int64_t length = spec.attributes.Int("sequence_length");
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      const int64_t position = at == nullptr ? i % length : at[i];
      for (int64_t c = 0; c < width; ++c) {
        const T token = token_table[tokens[i] * width + c];
        x[i * width + c] = position_table == nullptr
                               ? token
                               : Rounded<T>(Widened(token) + Widened(position_table[position * width + c]));
      }
    }
  }
};

struct EmbeddingGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const auto* tokens = Input<int32_t>(arguments, 0);
    const T* dx = Input<T>(arguments, 1);
    const auto* at = spec.inputs.size() == 3 ? Input<int32_t>(arguments, 2) : nullptr;
    const int64_t rows = spec.inputs[1].rows();
    const int64_t width = spec.inputs[1].columns();
    const int64_t length = spec.attributes.Int("sequence_length");
    const auto sum_rows = [&](int output, auto belongs) {
      auto* table = Output<Wide<T>>(arguments, output);
      if (table == nullptr) return;
      for (int64_t v = 0; v < spec.outputs[static_cast<size_t>(output)].rows(); ++v) {
        for (int64_t c = 0; c < width; ++c) {
          Wide<T> sum = 0;
          for (int64_t i = 0; i < rows; ++i) {
            if (belongs(i, v)) sum += Widened(dx[i * width + c]);
          }
          Put(table[v * width + c], sum, Accumulates(arguments, output));
        }
      }
    };
    sum_rows(0, [&](int64_t i, int64_t token) { return tokens[i] == token; });
    if (spec.outputs.size() < 2) return;
    sum_rows(1, [&](int64_t i, int64_t position) { return (at == nullptr ? i % length : at[i]) == position; });
  }
};

[[maybe_unused]] const bool registered =
    RegisterReference<Embedding>("embedding") && RegisterReference<EmbeddingGradient>("embedding_gradient");

}  // namespace
}  // namespace reprise
