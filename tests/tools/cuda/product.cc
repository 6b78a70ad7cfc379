// The products of runtime/tensor/cuda/product.h where there is no cuBLASLt: plain loops, each sum in the order of k.
#include "runtime/tensor/cuda/product.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "device/cuda/current_stream.h"
#include "runtime/tensor/access.h"
#include "tests/tools/cuda/runtime.h"

namespace reprise::cuda {
namespace {

float LoadAs(DType dtype, const std::byte* place, int64_t i) {
  return dtype == DType::kBFloat16 ? static_cast<float>(reinterpret_cast<const BFloat16*>(place)[i])
                                   : reinterpret_cast<const float*>(place)[i];
}

// Rows [0, rows) of op(matrix), `columns` wide, as float32 without gaps.
std::vector<float> Widen(DType dtype, const std::byte* matrix, int64_t rows, int64_t columns, bool transposed,
                         int64_t stride) {
  std::vector<float> wide(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      wide[static_cast<size_t>(r * columns + c)] = LoadAs(dtype, matrix, transposed ? c * stride + r : r * stride + c);
    }
  }
  return wide;
}

class PlainProduct : public Product {
 public:
  explicit PlainProduct(const ProductSpec& spec) : spec_(spec) {}

  int64_t scratch_bytes() const override { return 0; }

  void Run(const ProductArguments& arguments) const override {
    if (CurrentStream() == nullptr) return RunNow(spec_, arguments);
    testing::EnqueueOnStream(CurrentStream(), [spec = spec_, arguments] { RunNow(spec, arguments); });
  }

 private:
  static void RunNow(const ProductSpec& spec, const ProductArguments& arguments) {
    const auto [m, n, k] = std::tuple(spec.m, spec.n, spec.k);
    const std::vector<float> a = Widen(spec.inputs, arguments.a, m, k, spec.transpose_a, spec.RowOfA());
    const std::vector<float> b = Widen(spec.inputs, arguments.b, k, n, spec.transpose_b, spec.transpose_b ? k : n);
    std::vector<float> sums(static_cast<size_t>(n));
    for (int64_t r = 0; r < m; ++r) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (int64_t i = 0; i < k; ++i) {
        const float factor = a[static_cast<size_t>(r * k + i)];
        for (int64_t c = 0; c < n; ++c) sums[static_cast<size_t>(c)] += factor * b[static_cast<size_t>(i * n + c)];
      }
      for (int64_t c = 0; c < n; ++c) Store(spec, arguments, r * n + c, c, sums[static_cast<size_t>(c)]);
    }
  }

  static void Store(const ProductSpec& spec, const ProductArguments& arguments, int64_t i, int64_t column, float sum) {
    if (spec.bias) sum += LoadAs(spec.output, arguments.bias, column);
    if (arguments.accumulate) sum = LoadAs(spec.output, arguments.c, i) + sum;
    if (spec.output == DType::kBFloat16) {
      reinterpret_cast<BFloat16*>(arguments.c)[i] = BFloat16(sum);
    } else {
      reinterpret_cast<float*>(arguments.c)[i] = sum;
    }
  }

  ProductSpec spec_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Product>> MakeProduct(const ProductSpec& spec) {
  return std::make_unique<const PlainProduct>(spec);
}

}  // namespace reprise::cuda
