// Product: C = A B, or C += A B, of row-major matrices, through cuBLASLt (cublas_product.cu). The seam at which tests
// put a plain loop (tests/tools/cuda/product.cc).
//
//   ASSIGN_OR_RETURN(auto product, MakeProduct({.m = 1024, .n = 3072, .k = 768, .inputs = type, .output = type}));
//   product->Run({.a = x, .b = w, .c = y, .scratch = scratch});   // scratch: product->scratch_bytes() bytes
//
// Sums are float32, rounded once, after the bias; nothing is rounded to TF32. The algorithm is chosen when the product
// is made and follows from its ProductSpec alone within a process, so that a recomputation has the bits of the forward
// pass; partial sums never go through the output. Run starts work on the current stream.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_PRODUCT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/tensor/types.h"

namespace reprise::cuda {

struct ProductSpec {
  int64_t m = 0;  // C is [m, n]; A is [m, k], stored [k, m] if transposed; B is [k, n], stored [n, k] if transposed
  int64_t n = 0;
  int64_t k = 0;
  DType inputs = DType::kFloat32;  // of A and B: float32 or bfloat16
  DType output = DType::kFloat32;  // of C and the bias: that of the inputs, or float32
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;     // of n elements, added to every row
  int64_t a_stride = 0;  // elements from one stored row of A to the next; 0: no gaps

  int64_t RowOfA() const { return a_stride != 0 ? a_stride : transpose_a ? m : k; }

  auto operator<=>(const ProductSpec&) const = default;
};

// All pointers are aligned to 16 bytes, scratch to 256.
struct ProductArguments {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;
  std::byte* c = nullptr;
  bool accumulate = false;  // C = C + A B, the product complete before it is added; not with a bias
  std::byte* scratch = nullptr;
};

class Product {
 public:
  virtual ~Product() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual void Run(const ProductArguments& arguments) const = 0;
};

// Unavailable where cuBLASLt does not start; Unimplemented where it has no algorithm for these shapes.
absl::StatusOr<std::unique_ptr<const Product>> MakeProduct(const ProductSpec& spec);

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_PRODUCT_H_
