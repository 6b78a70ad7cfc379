// Element types, shapes and what an operation knows of a tensor before there is data.
//
//   TensorType x{DType::kBFloat16, {1024, 768}};
//   x.bytes();      // 1572864
//   x.ToString();   // "bf16[1024, 768]"
#ifndef REPRISE_RUNTIME_TENSOR_TYPES_H_
#define REPRISE_RUNTIME_TENSOR_TYPES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace reprise {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat64, kInt32 };

int64_t SizeOf(DType dtype);         // bytes of one element
const char* DTypeName(DType dtype);  // "f32", "bf16", "f64", "i32"

// Sizes of each dimension, outermost first; row-major storage without gaps.
using Shape = std::vector<int64_t>;

int64_t ElementCount(const Shape& shape);

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t elements() const { return ElementCount(shape); }
  int64_t bytes() const { return elements() * SizeOf(dtype); }
  // All dimensions but the last, multiplied; and the last.
  int64_t rows() const { return shape.empty() ? 1 : elements() / (shape.back() == 0 ? 1 : shape.back()); }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::string ToString() const;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_TYPES_H_
