// Kernels of shards: the optimizers, the norm, conversions. What changes from step to step is read by the kernels
// themselves, so that a captured graph serves every step.
#include <cmath>

#include "runtime/tensor/cuda/block_sum.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/flat.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/step_factor.h"

namespace reprise::cuda {
namespace {

constexpr int kFloats = kFlat<float>;
constexpr int64_t kChunk = 4096;  // of squared_sum

// base^exponent by repeated squaring; exponent >= 0.
REPRISE_ON_DEVICE double Power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

struct AdamWTask {
  const float* g;
  float* p;
  float* m;
  float* v;
  const StepValues* step;
  int64_t elements;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
};

// The constants of one step, made in float64.
struct AdamWConstants {
  float gradient_scale;
  float correction;  // of v: 1 / (1 - beta2^t)
  float step_size;   // learning rate / (1 - beta1^t)
  float decay;       // 1 - learning rate * weight decay
};

REPRISE_ON_DEVICE AdamWConstants ConstantsOf(const AdamWTask& task) {
  const StepValues& step = *task.step;
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .correction = static_cast<float>(1 / (1 - Power(task.beta2, step.step + 1))),
          .step_size = static_cast<float>(step.learning_rate / (1 - Power(task.beta1, step.step + 1))),
          .decay = static_cast<float>(1 - step.learning_rate * task.weight_decay)};
}

// One thread of a block makes the constants, while the loads of the others are under way.
REPRISE_KERNEL void AdamW(AdamWTask task) {
  if (task.step->updates == 0) return;
  auto* constants = Shared<AdamWConstants>();
  const int64_t i = FlatIndex<float>();
  const Pack<float, kFloats> g = LoadFlat<kFloats>(task.g, i, task.elements);
  Pack<float, kFloats> p = LoadFlat<kFloats>(task.p, i, task.elements);
  Pack<float, kFloats> m = LoadFlat<kFloats>(task.m, i, task.elements);
  Pack<float, kFloats> v = LoadFlat<kFloats>(task.v, i, task.elements);
  if (Thread() == 0) *constants = ConstantsOf(task);
  Barrier();
  const AdamWConstants c = *constants;
  const auto beta1 = static_cast<float>(task.beta1);
  const auto beta2 = static_cast<float>(task.beta2);
  const auto rest1 = static_cast<float>(1 - task.beta1);
  const auto rest2 = static_cast<float>(1 - task.beta2);
  const auto epsilon = static_cast<float>(task.epsilon);
  for (int k = 0; k < kFloats; ++k) {
    const float gradient = g.values[k] * c.gradient_scale;
    m.values[k] = beta1 * m.values[k] + rest1 * gradient;
    v.values[k] = beta2 * v.values[k] + rest2 * gradient * gradient;
    const float divisor = std::sqrt(v.values[k] * c.correction) + epsilon;
    p.values[k] = p.values[k] * c.decay - c.step_size * m.values[k] / divisor;
  }
  StoreFlat(p, task.p, i, task.elements);
  StoreFlat(m, task.m, i, task.elements);
  StoreFlat(v, task.v, i, task.elements);
}

REPRISE_KERNEL void Sgd(const float* g, float* p, const StepValues* step, int64_t elements, float weight_decay) {
  if (step->updates == 0) return;
  const auto rate = static_cast<float>(step->learning_rate);
  const auto scale = static_cast<float>(step->gradient_scale);
  const int64_t i = FlatIndex<float>();
  const Pack<float, kFloats> gradient = LoadFlat<kFloats>(g, i, elements);
  Pack<float, kFloats> pack = LoadFlat<kFloats>(p, i, elements);
  for (int k = 0; k < kFloats; ++k) {
    const float value = pack.values[k];
    pack.values[k] = value - rate * (gradient.values[k] * scale + weight_decay * value);
  }
  StoreFlat(pack, p, i, elements);
}

// A block a chunk. Products of two float32 are exact in float64.
REPRISE_KERNEL void ChunkSquares(const float* x, int64_t elements, double* sums) {
  const int64_t first = BlockX() * kChunk;
  double sum = 0;
  for (int64_t i = kFloats * Thread(); i < kChunk; i += int64_t{kFloats} * Threads()) {
    const Pack<float, kFloats> pack = LoadFlat<kFloats>(x, first + i, elements);
    for (const float value : pack.values) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  sum = BlockSum(sum);
  if (Thread() == 0) sums[BlockX()] = sum;
}

// One block: each thread every Threads()-th chunk, then the threads.
REPRISE_KERNEL void AddChunks(const double* sums, int64_t chunks, double* result, bool accumulate) {
  double sum = 0;
  for (int64_t chunk = Thread(); chunk < chunks; chunk += Threads()) sum += sums[chunk];
  sum = BlockSum(sum);
  if (Thread() == 0) Put(*result, sum, accumulate);
}

// One thread. Sums and factor stand in memory of the device, so that the host has nothing to wait for.
REPRISE_KERNEL void SetStepFactor(const double* sums, double clip_norm, double* out) {
  if (Thread() != 0) return;
  const StepFactor factor = MakeStepFactor(sums[0], sums[1], sums[2], clip_norm);
  out[0] = factor.gradient_scale;
  out[1] = factor.updates;
}

// A thread the elements of a pack of the smaller type.
template <typename X, typename Y>
REPRISE_KERNEL void Cast(const X* x, Y* y, int64_t elements) {
  constexpr int kN = kPackBytes / static_cast<int>(std::min(sizeof(X), sizeof(Y)));
  const int64_t i = ThisItem() * kN;
  const Pack<X, kN> from = LoadFlat<kN>(x, i, elements);
  Pack<Y, kN> to;
  for (int k = 0; k < kN; ++k) to.values[k] = Rounded<Y>(Widened(from.values[k]));
  StoreFlat(to, y, i, elements);
}

// Every type has elements of whole such words.
REPRISE_KERNEL void FillZero(uint16_t* x, int64_t words) {
  StoreFlat(Pack<uint16_t, kFlat<uint16_t>>{}, x, FlatIndex<uint16_t>(), words);
}

template <typename Function>
KernelOr MakeFloatKernel(const KernelSpec& spec, Function run, int64_t scratch_bytes = 0) {
  if (ComputeType(spec) != DType::kFloat32) {
    return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has a cuda kernel for float32 only"));
  }
  return MakeFunctionKernel(std::move(run), scratch_bytes);
}

KernelOr MakeAdamW(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeFloatKernel(spec, [elements = spec.inputs[0].elements(), beta1 = spec.attributes.Real("beta1"),
                                beta2 = spec.attributes.Real("beta2"), epsilon = spec.attributes.Real("epsilon"),
                                weight_decay = spec.attributes.Real("weight_decay")](const KernelArguments& arguments) {
    const AdamWTask task{.g = Input<float>(arguments, 0),
                         .p = Output<float>(arguments, 0),
                         .m = Output<float>(arguments, 1),
                         .v = Output<float>(arguments, 2),
                         .step = arguments.step,
                         .elements = elements,
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .epsilon = epsilon,
                         .weight_decay = weight_decay};
    Launch({.blocks = FlatBlocks<float>(elements), .threads = kThreads, .shared_bytes = sizeof(AdamWConstants)}, AdamW,
           task);
  });
}

KernelOr MakeSgd(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeFloatKernel(spec, [elements = spec.inputs[0].elements(),
                                weight_decay = static_cast<float>(spec.attributes.Real("weight_decay"))](
                                   const KernelArguments& arguments) {
    Launch({.blocks = FlatBlocks<float>(elements), .threads = kThreads}, Sgd, Input<float>(arguments, 0),
           Output<float>(arguments, 0), arguments.step, elements, weight_decay);
  });
}

KernelOr MakeSquaredSum(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  const int64_t chunks = (elements + kChunk - 1) / kChunk;
  const auto run = [=](const KernelArguments& arguments) {
    auto* result = Output<double>(arguments, 0);
    if (result == nullptr) return;
    auto* sums = reinterpret_cast<double*>(arguments.scratch);
    Launch({.blocks = chunks, .threads = kThreads, .shared_bytes = kBlockSumBytes}, ChunkSquares,
           Input<float>(arguments, 0), elements, sums);
    Launch({.threads = 1024, .shared_bytes = kBlockSumBytes}, AddChunks, sums, chunks, result,
           Accumulates(arguments, 0));
  };
  return MakeFloatKernel(spec, run, chunks * static_cast<int64_t>(sizeof(double)));
}

KernelOr MakeStepFactorKernel(const KernelSpec& spec, const KernelOptions& /*options*/) {
  return MakeFunctionKernel([clip_norm = spec.attributes.Real("clip_norm")](const KernelArguments& arguments) {
    Launch({.threads = kWarp}, SetStepFactor, Input<double>(arguments, 0), clip_norm, Output<double>(arguments, 0));
  });
}

template <typename X, typename Y>
KernelOr MakeCastOf(const KernelSpec& spec) {
  const int64_t elements = spec.inputs[0].elements();
  return MakeFunctionKernel([elements](const KernelArguments& arguments) {
    auto* y = Output<Y>(arguments, 0);
    if (y == nullptr) return;
    const int64_t blocks = std::min(FlatBlocks<X>(elements), FlatBlocks<Y>(elements));
    Launch({.blocks = blocks, .threads = kThreads}, Cast<X, Y>, Input<X>(arguments, 0), y, elements);
  });
}

KernelOr MakeCast(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const DType from = spec.inputs[0].dtype;
  const DType to = spec.outputs[0].dtype;
  const auto plain = [](DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; };
  if (!plain(from) || !plain(to)) {
    return absl::UnimplementedError(
        absl::StrCat("operation cast has no cuda kernel from ", DTypeName(from), " to ", DTypeName(to)));
  }
  if (from == DType::kFloat32) {
    return to == DType::kFloat32 ? MakeCastOf<float, float>(spec) : MakeCastOf<float, BFloat16>(spec);
  }
  return to == DType::kFloat32 ? MakeCastOf<BFloat16, float>(spec) : MakeCastOf<BFloat16, BFloat16>(spec);
}

KernelOr MakeFillZero(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t words = spec.outputs[0].bytes() / static_cast<int64_t>(sizeof(uint16_t));
  return MakeFunctionKernel([words](const KernelArguments& arguments) {
    auto* x = Output<uint16_t>(arguments, 0);
    if (x == nullptr) return;
    Launch({.blocks = FlatBlocks<uint16_t>(words), .threads = kThreads}, FillZero, x, words);
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("adamw", KernelKind::kCuda, MakeAdamW) && RegisterKernel("sgd", KernelKind::kCuda, MakeSgd) &&
    RegisterKernel("squared_sum", KernelKind::kCuda, MakeSquaredSum) &&
    RegisterKernel("step_factor", KernelKind::kCuda, MakeStepFactorKernel) &&
    RegisterKernel("cast", KernelKind::kCuda, MakeCast) && RegisterKernel("fill_zero", KernelKind::kCuda, MakeFillZero);

}  // namespace
}  // namespace reprise::cuda
