// Sums of tensors and of a bias, a tensor times a number, and copies.
#include "runtime/tensor/cuda/column_sums.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/flat.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {
namespace {

template <typename T>
REPRISE_KERNEL void Add(const T* a, const T* b, T* sum, int64_t elements) {
  constexpr int kN = kFlat<T>;
  const int64_t i = FlatIndex<T>();
  Pack<T, kN> pack = LoadFlat<kN>(a, i, elements);
  const Pack<T, kN> added = LoadFlat<kN>(b, i, elements);
  for (int k = 0; k < kN; ++k) pack.values[k] = Rounded<T>(Widened(pack.values[k]) + Widened(added.values[k]));
  StoreFlat(pack, sum, i, elements);
}

template <typename T>
REPRISE_KERNEL void Scale(const T* x, T* y, int64_t elements, float factor) {
  const int64_t i = FlatIndex<T>();
  Pack<T, kFlat<T>> pack = LoadFlat<kFlat<T>>(x, i, elements);
  for (T& value : pack.values) value = Rounded<T>(Widened(value) * factor);
  StoreFlat(pack, y, i, elements);
}

// A block a row.
template <typename T, int N>
REPRISE_KERNEL void AddBias(const T* h, const T* bias, T* y, int64_t width) {
  const int64_t first = BlockX() * width;
  ForEachPack<N>(width, [&](int64_t c) {
    Pack<T, N> pack = LoadPack<N>(h + first + c);
    const Pack<T, N> added = LoadPack<N>(bias + c);
    for (int k = 0; k < N; ++k) pack.values[k] = Rounded<T>(Widened(pack.values[k]) + Widened(added.values[k]));
    StorePack(pack, y + first + c);
  });
}

// Every type has elements of whole such words.
REPRISE_KERNEL void CopyWords(const uint16_t* x, uint16_t* y, int64_t words) {
  const int64_t i = FlatIndex<uint16_t>();
  StoreFlat(LoadFlat<kFlat<uint16_t>>(x, i, words), y, i, words);
}

KernelOr MakeAdd(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* sum = Output<T>(arguments, 0);
      if (sum == nullptr) return;
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, Add<T>, Input<T>(arguments, 0),
             Input<T>(arguments, 1), sum, elements);
    });
  });
}

KernelOr MakeScale(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t elements = spec.inputs[0].elements();
  const auto factor = static_cast<float>(spec.attributes.Real("factor"));
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* y = Output<T>(arguments, 0);
      if (y == nullptr) return;
      Launch({.blocks = FlatBlocks<T>(elements), .threads = kThreads}, Scale<T>, Input<T>(arguments, 0), y, elements,
             factor);
    });
  });
}

KernelOr MakeBiasAdd(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      auto* y = Output<T>(arguments, 0);
      if (y == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(width / N::value)}, AddBias<T, N::value>, Input<T>(arguments, 0),
             Input<T>(arguments, 1), y, width);
    });
  });
}

KernelOr MakeBiasGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const ColumnSums sums(spec.inputs[0].rows(), spec.inputs[0].columns());
  return WithElementType(spec, [&]<typename T>(T /*type*/) {
    const auto run = [=](const KernelArguments& arguments) {
      auto* db = Output<float>(arguments, 0);
      if (db == nullptr) return;
      auto* partials = reinterpret_cast<float*>(arguments.scratch);
      sums.Sum(Input<T>(arguments, 0), sums.columns, partials, db, Accumulates(arguments, 0));
    };
    return MakeCudaKernel(spec, run, sums.scratch_bytes());
  });
}

KernelOr MakeCopy(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t words = spec.inputs[0].bytes() / static_cast<int64_t>(sizeof(uint16_t));
  return MakeFunctionKernel([words](const KernelArguments& arguments) {
    auto* y = Output<uint16_t>(arguments, 0);
    if (y == nullptr) return;
    Launch({.blocks = FlatBlocks<uint16_t>(words), .threads = kThreads}, CopyWords, Input<uint16_t>(arguments, 0), y,
           words);
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("add", KernelKind::kCuda, MakeAdd) &&
                                         RegisterKernel("scale", KernelKind::kCuda, MakeScale) &&
                                         RegisterKernel("bias_add", KernelKind::kCuda, MakeBiasAdd) &&
                                         RegisterKernel("bias_gradient", KernelKind::kCuda, MakeBiasGradient) &&
                                         RegisterKernel("copy", KernelKind::kCuda, MakeCopy);

}  // namespace
}  // namespace reprise::cuda
