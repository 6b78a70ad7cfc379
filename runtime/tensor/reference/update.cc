#include <cmath>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "runtime/tensor/access.h"
#include "runtime/tensor/step_factor.h"

namespace reprise {
namespace {

constexpr int64_t kChunk = 4096;

struct AdamW {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    using W = Wide<T>;
    const T* g = Input<T>(arguments, 0);
    T* p = Output<T>(arguments, 0);
    T* m = Output<T>(arguments, 1);
    T* v = Output<T>(arguments, 2);
    const StepValues& step = *arguments.step;
    if (step.updates == 0) return;
    const double beta1 = spec.attributes.Real("beta1");
    const double beta2 = spec.attributes.Real("beta2");
    const auto t = static_cast<double>(step.step + 1);
    const double step_size = step.learning_rate / (1 - std::pow(beta1, t));
    const double correction = 1 / (1 - std::pow(beta2, t));
    const double decay = 1 - step.learning_rate * spec.attributes.Real("weight_decay");
    const double epsilon = spec.attributes.Real("epsilon");
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      const W gradient = Widened(g[i]) * static_cast<W>(step.gradient_scale);
      const W momentum = static_cast<W>(beta1) * Widened(m[i]) + static_cast<W>(1 - beta1) * gradient;
      const W variance = static_cast<W>(beta2) * Widened(v[i]) + static_cast<W>(1 - beta2) * gradient * gradient;
      const W divisor = std::sqrt(variance * static_cast<W>(correction)) + static_cast<W>(epsilon);
      m[i] = Rounded<T>(momentum);
      v[i] = Rounded<T>(variance);
      p[i] = Rounded<T>(Widened(p[i]) * static_cast<W>(decay) - static_cast<W>(step_size) * momentum / divisor);
    }
  }
};

struct Sgd {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    using W = Wide<T>;
    const T* g = Input<T>(arguments, 0);
    T* p = Output<T>(arguments, 0);
    if (arguments.step->updates == 0) return;
    const auto rate = static_cast<W>(arguments.step->learning_rate);
    const auto scale = static_cast<W>(arguments.step->gradient_scale);
    const auto decay = static_cast<W>(spec.attributes.Real("weight_decay"));
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) {
      const W value = Widened(p[i]);
      p[i] = Rounded<T>(value - rate * (Widened(g[i]) * scale + decay * value));
    }
  }
};

struct SquaredSum {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* x = Input<T>(arguments, 0);
    auto* s = Output<double>(arguments, 0);
    if (s == nullptr) return;
    double sum = 0;
    double chunk_sum = 0;
    const int64_t count = spec.inputs[0].elements();
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(Widened(x[i]));
      chunk_sum += value * value;
      if ((i + 1) % kChunk != 0 && i + 1 != count) continue;
      sum += chunk_sum;
      chunk_sum = 0;
    }
    Put(s[0], sum, Accumulates(arguments, 0));
  }
};

struct Cast {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    switch (spec.outputs[0].dtype) {
      case DType::kFloat32:
        return To<float>(spec, Input<T>(arguments, 0), Output<float>(arguments, 0));
      case DType::kFloat64:
        return To<double>(spec, Input<T>(arguments, 0), Output<double>(arguments, 0));
      case DType::kBFloat16:
        return To<BFloat16>(spec, Input<T>(arguments, 0), Output<BFloat16>(arguments, 0));
      case DType::kInt32:
        REPRISE_CHECK(false) << "cast does not make integers: " << spec.ToString();
    }
  }

  template <typename Y, typename X>
  static void To(const KernelSpec& spec, const X* x, Y* y) {
    if (y == nullptr) return;
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) y[i] = Rounded<Y>(static_cast<Wide<Y>>(Widened(x[i])));
  }
};

struct FillZero {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    if (auto* x = Output<std::byte>(arguments, 0); x != nullptr) {
      std::memset(x, 0, static_cast<size_t>(spec.outputs[0].bytes()));
    }
  }
};

// A few numbers: one kernel for the reference and the CPU.
absl::StatusOr<std::unique_ptr<Kernel>> MakeStepFactorKernel(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeFunctionKernel([clip_norm = spec.attributes.Real("clip_norm")](const KernelArguments& arguments) {
    const auto* sums = Input<double>(arguments, 0);
    const StepFactor factor = MakeStepFactor(sums[0], sums[1], sums[2], clip_norm);
    auto* out = Output<double>(arguments, 0);
    out[0] = factor.gradient_scale;
    out[1] = factor.updates;
  });
}

[[maybe_unused]] const bool registered = RegisterReference<AdamW>("adamw") && RegisterReference<Sgd>("sgd") &&
                                         RegisterReference<SquaredSum>("squared_sum") &&
                                         RegisterReference<Cast>("cast") && RegisterReference<FillZero>("fill_zero") &&
                                         RegisterKernel("step_factor", KernelKind::kReference, MakeStepFactorKernel) &&
                                         RegisterKernel("step_factor", KernelKind::kCpu, MakeStepFactorKernel);

}  // namespace
}  // namespace reprise
