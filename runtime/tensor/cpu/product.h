// Product: C = A B, or C += A B, of row-major matrices, through oneDNN.
//
//   Product product({.m = 1024, .n = 3072, .k = 768, .transpose_b = true, .threads = 2});
//   product.Run({.a = x, .b = w, .c = y, .scratch = scratch});   // scratch: product.scratch_bytes() bytes
//
// Everything is prepared when it is made; Run sets pointers and executes, and allocates nothing of its own. bfloat16
// operands go to oneDNN where it knows them on this processor (AVX-512, AMX); elsewhere blocks of them are widened into
// scratch, multiplied in float32 and rounded once. One Run of one Product at a time, and only one thread of a process
// runs Products with threads > 1.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_PRODUCT_H_
#define REPRISE_RUNTIME_TENSOR_CPU_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/tensor/types.h"

namespace reprise {

struct ProductSpec {
  int64_t m = 0;  // C is [m, n]; A is [m, k], stored [k, m] if transposed; B is [k, n], stored [n, k] if transposed
  int64_t n = 0;
  int64_t k = 0;
  DType a = DType::kFloat32;  // float32 or bfloat16, each
  DType b = DType::kFloat32;
  DType c = DType::kFloat32;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;     // of n elements and C's type, added to every row before rounding
  int64_t a_stride = 0;  // elements from one stored row of A to the next; 0: no gaps
  int threads = 1;
};

struct ProductArguments {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;
  std::byte* c = nullptr;
  bool accumulate = false;       // C += A B, in the order that is fast; C must be float32 without a bias
  std::byte* scratch = nullptr;  // aligned to 64 bytes
};

class Product {
 public:
  explicit Product(const ProductSpec& spec);
  ~Product();
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;

  int64_t scratch_bytes() const;
  void Run(const ProductArguments& arguments) const;

  class Implementation;

 private:
  std::unique_ptr<Implementation> implementation_;
};

// Whether oneDNN multiplies bfloat16 on this processor. Asked once.
bool HasBFloat16Products();

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_PRODUCT_H_
