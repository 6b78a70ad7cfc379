// What a vision transformer needs beside the operations of others: copies and sums, a block a row.
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/image_shape.h"

namespace reprise::cuda {
namespace {

// Elements of a patch lie in the order channel, y, x; N divides a side.
template <typename T, int N>
REPRISE_KERNEL void GatherPatch(ImageShape shape, const float* pixels, T* patches) {
  const int64_t area = shape.patch * shape.patch;
  const int64_t width = shape.channels * area;
  ForEachPack<N>(width, [&](int64_t c) {
    const int64_t y = c % area / shape.patch;
    const Pack<float, N> from = LoadPack<N>(pixels + shape.FirstPixel(BlockX(), c / area, y) + c % shape.patch);
    Pack<T, N> to;
    for (int k = 0; k < N; ++k) to.values[k] = Rounded<T>(from.values[k]);
    StorePack(to, patches + BlockX() * width + c);
  });
}

template <typename T>
KernelOr MakePatches(const KernelSpec& spec) {
  const ImageShape shape(spec);
  const TensorType& patches = spec.outputs[0];
  return MakeCudaKernel(spec, [=, rows = patches.rows(), width = patches.columns()](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    constexpr int kPack = 4;
    const bool packed = shape.patch % kPack == 0;
    Launch({.blocks = rows, .threads = ThreadsFor(packed ? width / kPack : width)},
           packed ? GatherPatch<T, kPack> : GatherPatch<T, 1>, shape, Input<float>(arguments, 0),
           Output<T>(arguments, 0));
  });
}

KernelOr MakeImagePatches(const KernelSpec& spec, const KernelOptions& /*options*/) {
  switch (spec.outputs[0].dtype) {
    case DType::kBFloat16:
      return MakePatches<BFloat16>(spec);
    case DType::kFloat32:
      return MakePatches<float>(spec);
    default:
      return absl::UnimplementedError("operation image_patches has a cuda kernel for float32 and bfloat16 only");
  }
}

template <typename T>
struct PrependTask {
  const T* x;
  const T* row;
  const T* table;
  T* y;
  int64_t length;  // of a sequence, with its first row
  int64_t width;
};

template <typename T, int N>
REPRISE_KERNEL void PrependRow(PrependTask<T> task) {
  const int64_t t = BlockX() % task.length;
  const T* from = t == 0 ? task.row : task.x + (BlockX() / task.length * (task.length - 1) + t - 1) * task.width;
  ForEachPack<N>(task.width, [&](int64_t c) {
    Pack<T, N> y = LoadPack<N>(from + c);
    const Pack<T, N> added = LoadPack<N>(task.table + t * task.width + c);
    for (int k = 0; k < N; ++k) y.values[k] = Rounded<T>(Widened(y.values[k]) + Widened(added.values[k]));
    StorePack(y, task.y + BlockX() * task.width + c);
  });
}

// Leaves out the first row of each sequence.
template <typename T, int N>
REPRISE_KERNEL void DropFirstRows(const T* dy, T* dx, int64_t length, int64_t width) {
  const int64_t from = BlockX() / (length - 1) * length + BlockX() % (length - 1) + 1;
  ForEachPack<N>(width, [&](int64_t c) { StorePack(LoadPack<N>(dy + from * width + c), dx + BlockX() * width + c); });
}

// Elements [0, count) of every sequence, `stride` elements apart, added up in the order of sequences.
template <typename T>
REPRISE_KERNEL void SumOverSequences(const T* dy, int64_t sequences, int64_t stride, int64_t count, float* sums,
                                     bool accumulate) {
  const int64_t i = ThisItem();
  if (i >= count) return;
  float sum = 0;
  for (int64_t sequence = 0; sequence < sequences; ++sequence) sum += Widened(dy[sequence * stride + i]);
  Put(sums[i], sum, accumulate);
}

template <typename T, int N>
REPRISE_KERNEL void TakeFirstRow(const T* x, T* y, int64_t length, int64_t width) {
  ForEachPack<N>(
      width, [&](int64_t c) { StorePack(LoadPack<N>(x + BlockX() * length * width + c), y + BlockX() * width + c); });
}

template <typename T, int N>
REPRISE_KERNEL void PutFirstRow(const T* dy, T* dx, int64_t length, int64_t width) {
  const bool first = BlockX() % length == 0;
  ForEachPack<N>(width, [&](int64_t c) {
    Pack<T, N> row = {};
    if (first) row = LoadPack<N>(dy + BlockX() / length * width + c);
    StorePack(row, dx + BlockX() * width + c);
  });
}

KernelOr MakePrependRow(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.outputs[0].rows();
  const int64_t width = spec.outputs[0].columns();
  const int64_t length = spec.inputs[2].rows();
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const PrependTask<T> task{.x = Input<T>(arguments, 0),
                                .row = Input<T>(arguments, 1),
                                .table = Input<T>(arguments, 2),
                                .y = Output<T>(arguments, 0),
                                .length = length,
                                .width = width};
      if (task.y == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(width / N::value)}, PrependRow<T, N::value>, task);
    });
  });
}

KernelOr MakePrependRowGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t width = spec.inputs[0].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const int64_t sequences = spec.inputs[0].rows() / length;
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const T* dy = Input<T>(arguments, 0);
      T* dx = Output<T>(arguments, 0);
      if (dx != nullptr) {
        Launch({.blocks = sequences * (length - 1), .threads = ThreadsFor(width / N::value)},
               DropFirstRows<T, N::value>, dy, dx, length, width);
      }
      const auto sum = [&](int output, int64_t count) {
        if (arguments.outputs[static_cast<size_t>(output)] == nullptr) return;
        Launch({.blocks = BlocksFor(count), .threads = kThreads}, SumOverSequences<T>, dy, sequences, length * width,
               count, Output<float>(arguments, output), Accumulates(arguments, output));
      };
      sum(1, width);
      sum(2, length * width);
    });
  });
}

KernelOr MakeFirstRow(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t width = spec.inputs[0].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const int64_t rows = spec.outputs[0].rows();
  const bool gradient = spec.operation == "first_row_gradient";
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      if (arguments.outputs[0] == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(width / N::value)},
             gradient ? PutFirstRow<T, N::value> : TakeFirstRow<T, N::value>, Input<T>(arguments, 0),
             Output<T>(arguments, 0), length, width);
    });
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("image_patches", KernelKind::kCuda, MakeImagePatches) &&
    RegisterKernel("prepend_row", KernelKind::kCuda, MakePrependRow) &&
    RegisterKernel("prepend_row_gradient", KernelKind::kCuda, MakePrependRowGradient) &&
    RegisterKernel("first_row", KernelKind::kCuda, MakeFirstRow) &&
    RegisterKernel("first_row_gradient", KernelKind::kCuda, MakeFirstRow);

}  // namespace
}  // namespace reprise::cuda
