// What a vision transformer needs beside the operations of others. T rows a sequence: a class token, then P patches.
//
//   image_patches(pixels f32[B, channels*S*S]; channels, image_size S, patch_size p, dtype) -> [B*P, channels*p*p]
//     patches row by row of the image; the elements of one in the order of a convolution's weight: channel, y, x.
//     No gradient: pixels are data.
//   prepend_row(x[B*P,C], row[1,C], table[T,C]) -> y[B*T,C]: y[b,0] = row + table[0], y[b,1+i] = x[b,i] + table[1+i]
//   prepend_row_gradient(dy[B*T,C]; sequence_length T) -> dx[B*P,C], drow[1,C], dtable[T,C]
//   first_row(x[B*T,C]; sequence_length T) -> y[B,C]: y[b] = x[b,0]
//   first_row_gradient(dy[B,C]; sequence_length T) -> dx[B*T,C]: zero but in the first row of each sequence
#include "runtime/tensor/operations/rules.h"

namespace reprise {
namespace {

OperationTypes InferImagePatches(const OperationTypes& t, const Attributes& attributes) {
  const int64_t channels = attributes.Int("channels");
  const int64_t size = attributes.Int("image_size");
  const int64_t patch = attributes.Int("patch_size");
  CheckTypes("image_patches", t,
             t.size() == 1 && t[0].dtype == DType::kFloat32 && t[0].shape.size() == 2 && channels > 0 && patch > 0 &&
                 size > 0 && size % patch == 0 && t[0].columns() == channels * size * size);
  const int64_t patches = (size / patch) * (size / patch);
  return {{static_cast<DType>(attributes.Int("dtype")), {t[0].rows() * patches, channels * patch * patch}}};
}

OperationTypes InferPrependRow(const OperationTypes& t, const Attributes& /*attributes*/) {
  CheckTypes("prepend_row", t,
             t.size() == 3 && IsFloatMatrix(t[0]) && IsFloatMatrix(t[1]) && IsFloatMatrix(t[2]) &&
                 t[0].dtype == t[1].dtype && t[0].dtype == t[2].dtype && t[0].columns() == t[1].columns() &&
                 t[0].columns() == t[2].columns() && t[1].rows() == 1 && t[2].rows() > 1 &&
                 t[0].rows() % (t[2].rows() - 1) == 0);
  return {{t[0].dtype, {t[0].rows() / (t[2].rows() - 1) * t[2].rows(), t[0].columns()}}};
}

OperationTypes InferPrependRowGradient(const OperationTypes& t, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  CheckTypes("prepend_row_gradient", t,
             t.size() == 1 && IsFloatMatrix(t[0]) && length > 1 && t[0].rows() % length == 0);
  const DType wide = WideTypeOf(t[0].dtype);
  const int64_t width = t[0].columns();
  return {{t[0].dtype, {t[0].rows() / length * (length - 1), width}}, {wide, {1, width}}, {wide, {length, width}}};
}

OperationTypes InferFirstRow(const OperationTypes& t, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  CheckTypes("first_row", t, t.size() == 1 && IsFloatMatrix(t[0]) && length > 0 && t[0].rows() % length == 0);
  return {{t[0].dtype, {t[0].rows() / length, t[0].columns()}}};
}

OperationTypes InferFirstRowGradient(const OperationTypes& t, const Attributes& attributes) {
  const int64_t length = attributes.Int("sequence_length");
  CheckTypes("first_row_gradient", t, t.size() == 1 && IsFloatMatrix(t[0]) && length > 0);
  return {{t[0].dtype, {t[0].rows() * length, t[0].columns()}}};
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "image_patches", .infer = InferImagePatches}) &&
    RegisterOperation({.name = "prepend_row", .infer = InferPrependRow}) &&
    RegisterOperation({.name = "prepend_row_gradient", .infer = InferPrependRowGradient}) &&
    RegisterOperation({.name = "first_row", .infer = InferFirstRow}) &&
    RegisterOperation({.name = "first_row_gradient", .infer = InferFirstRowGradient});

}  // namespace
}  // namespace reprise
