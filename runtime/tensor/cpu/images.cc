#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "runtime/tensor/cpu/bfloat16_rows.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/row_sums.h"
#include "runtime/tensor/image_shape.h"

namespace reprise {
namespace {

void StorePixels(bool bfloat16, const float* pixels, std::byte* to, int64_t count) {
  if (bfloat16) {
    RoundRow(pixels, nullptr, reinterpret_cast<BFloat16*>(to), count);
  } else {
    std::memcpy(to, pixels, static_cast<size_t>(count) * sizeof(float));
  }
}

KernelOr MakeImagePatches(const KernelSpec& spec, const KernelOptions& options) {
  const DType dtype = spec.outputs[0].dtype;
  if (dtype == DType::kFloat64) {
    return absl::UnimplementedError("operation image_patches has no cpu kernel for float64");
  }
  const ImageShape shape(spec);
  const int64_t rows = spec.outputs[0].rows();
  const int64_t width = spec.outputs[0].columns();
  return MakeFunctionKernel([=, threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    const auto* pixels = Input<float>(arguments, 0);
    const int64_t piece_bytes = shape.patch * SizeOf(dtype);
    ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
      std::byte* to = arguments.outputs[0] + begin * width * SizeOf(dtype);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t piece = 0; piece < shape.channels * shape.patch; ++piece, to += piece_bytes) {
          const float* from = pixels + shape.FirstPixel(row, piece / shape.patch, piece % shape.patch);
          StorePixels(dtype == DType::kBFloat16, from, to, shape.patch);
        }
      }
    });
  });
}

KernelOr MakePrependRow(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.outputs[0].rows();
  const int64_t width = spec.outputs[0].columns();
  const int64_t length = spec.inputs[2].rows();
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec, [=, threads = options.threads](const KernelArguments& arguments) {
    if (arguments.outputs[0] == nullptr) return;
    const int64_t row_bytes = width * (bfloat16 ? 2 : 4);
    ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = i % length;
        const std::byte* from =
            t == 0 ? arguments.inputs[1] : arguments.inputs[0] + (i / length * (length - 1) + t - 1) * row_bytes;
        AddRows(bfloat16, from, arguments.inputs[2] + t * row_bytes, arguments.outputs[0] + i * row_bytes, width);
      }
    });
  });
}

// sums[c] = [sums[c] +] column c of the rows `first`, `first` + `stride`, ... added in that order.
struct RowSum {
  const std::byte* rows;
  int64_t first, stride, end, width;
  bool bfloat16;

  void Into(float* sums, bool accumulate) const {
    constexpr int64_t kBlock = 512;  // columns whose sums stay in the nearest cache
    float block[kBlock];
    for (int64_t column = 0; column < width; column += kBlock) {
      const int64_t count = std::min(kBlock, width - column);
      std::fill_n(block, count, 0.0F);
      for (int64_t row = first; row < end; row += stride) {
        AddToSums(bfloat16, block, rows + (row * width + column) * (bfloat16 ? 2 : 4), count);
      }
      for (int64_t c = 0; c < count; ++c) Put(sums[column + c], block[c], accumulate);
    }
  }
};

KernelOr MakePrependRowGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t width = spec.inputs[0].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(spec, [=, threads = options.threads](const KernelArguments& arguments) {
    REPRISE_CHECK(!Accumulates(arguments, 0)) << "prepend_row_gradient: dx is assigned, never added to";
    const int64_t row_bytes = width * (bfloat16 ? 2 : 4);
    const std::byte* dy = arguments.inputs[0];
    if (std::byte* dx = arguments.outputs[0]; dx != nullptr) {
      for (int64_t first = 0; first < rows; first += length, dx += (length - 1) * row_bytes) {
        std::memcpy(dx, dy + (first + 1) * row_bytes, static_cast<size_t>((length - 1) * row_bytes));
      }
    }
    const auto sum_of = [&](int64_t t) { return RowSum{dy, t, length, rows, width, bfloat16}; };
    if (auto* row = Output<float>(arguments, 1); row != nullptr) sum_of(0).Into(row, Accumulates(arguments, 1));
    if (auto* table = Output<float>(arguments, 2); table != nullptr) {
      ParallelFor(threads, length, GrainRows(width * (rows / length)), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) sum_of(t).Into(table + t * width, Accumulates(arguments, 2));
      });
    }
  });
}

KernelOr MakeFirstRow(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t sequences = spec.outputs[0].rows();
  const int64_t row_bytes = spec.outputs[0].columns() * SizeOf(spec.outputs[0].dtype);
  const int64_t stride = spec.attributes.Int("sequence_length") * row_bytes;
  return MakeFastKernel(spec, [=](const KernelArguments& arguments) {
    std::byte* y = arguments.outputs[0];
    for (int64_t b = 0; y != nullptr && b < sequences; ++b) {
      std::memcpy(y + b * row_bytes, arguments.inputs[0] + b * stride, static_cast<size_t>(row_bytes));
    }
  });
}

KernelOr MakeFirstRowGradient(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t sequences = spec.inputs[0].rows();
  const int64_t row_bytes = spec.inputs[0].columns() * SizeOf(spec.inputs[0].dtype);
  const int64_t stride = spec.attributes.Int("sequence_length") * row_bytes;
  return MakeFastKernel(spec, [=, threads = options.threads](const KernelArguments& arguments) {
    REPRISE_CHECK(!Accumulates(arguments, 0)) << "first_row_gradient: dx is assigned, never added to";
    if (arguments.outputs[0] == nullptr) return;
    ParallelFor(threads, sequences, GrainRows(stride / 4), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        std::byte* dx = arguments.outputs[0] + b * stride;
        std::memcpy(dx, arguments.inputs[0] + b * row_bytes, static_cast<size_t>(row_bytes));
        std::memset(dx + row_bytes, 0, static_cast<size_t>(stride - row_bytes));
      }
    });
  });
}

[[maybe_unused]] const bool registered =
    RegisterKernel("image_patches", KernelKind::kCpu, MakeImagePatches) &&
    RegisterKernel("prepend_row", KernelKind::kCpu, MakePrependRow) &&
    RegisterKernel("prepend_row_gradient", KernelKind::kCpu, MakePrependRowGradient) &&
    RegisterKernel("first_row", KernelKind::kCpu, MakeFirstRow) &&
    RegisterKernel("first_row_gradient", KernelKind::kCpu, MakeFirstRowGradient);

}  // namespace
}  // namespace reprise
