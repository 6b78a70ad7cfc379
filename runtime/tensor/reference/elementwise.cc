#include <cstring>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

// sum[i] = a[i] + b[i % period]
template <typename T>
void AddPeriodic(const KernelSpec& spec, const KernelArguments& arguments) {
  const T* a = Input<T>(arguments, 0);
  const T* b = Input<T>(arguments, 1);
  T* sum = Output<T>(arguments, 0);
  if (sum == nullptr) return;
  const int64_t period = spec.inputs[1].elements();
  for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) sum[i] = Rounded<T>(Widened(a[i]) + Widened(b[i % period]));
}

struct Add {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    AddPeriodic<T>(spec, arguments);
  }
};

struct Scale {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const auto factor = static_cast<Wide<T>>(spec.attributes.Real("factor"));
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) y[i] = Rounded<T>(Widened(x[i]) * factor);
  }
};

struct BiasGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* dy = Input<T>(arguments, 0);
    auto* db = Output<Wide<T>>(arguments, 0);
    if (db == nullptr) return;
    const int64_t width = spec.inputs[0].columns();
    for (int64_t c = 0; c < width; ++c) {
      Wide<T> sum = 0;
      for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) sum += Widened(dy[row * width + c]);
      Put(db[c], sum, Accumulates(arguments, 0));
    }
  }
};

struct Copy {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    if (auto* y = Output<std::byte>(arguments, 0); y != nullptr) {
      std::memcpy(y, arguments.inputs[0], static_cast<size_t>(spec.inputs[0].bytes()));
    }
  }
};

[[maybe_unused]] const bool registered =
    RegisterReference<Add>("add") && RegisterReference<Scale>("scale") && RegisterReference<Add>("bias_add") &&
    RegisterReference<BiasGradient>("bias_gradient") && RegisterReference<Copy>("copy");

}  // namespace
}  // namespace reprise
