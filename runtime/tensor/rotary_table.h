// Cosines and sines of rotary position embeddings (Su et al. 2021), made as Transformers makes them: inverse
// frequencies 1 / theta^(2i / D) in float32, with Llama 3's smoothing by wavelength where asked, and angles
// position x frequency, cosines and sines in float32, also for float64 tensors.
//
//   const std::shared_ptr<const RotaryTable> table = SharedRotaryTable(spec);
//   table->cosine[position * table->half + i];
//
// A table lives as long as a kernel that uses it, in the process's memory beside the arena; kernels of equal tables
// share one: 4 x length x D bytes.
#ifndef REPRISE_RUNTIME_TENSOR_ROTARY_TABLE_H_
#define REPRISE_RUNTIME_TENSOR_ROTARY_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/tensor/attributes.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

// [length, half] each: pair i of a head, features i and half + i, turns by position x frequency[i].
struct RotaryTable {
  int64_t length = 0;
  int64_t half = 0;  // of a head's features
  std::vector<float> cosine;
  std::vector<float> sine;
};

// Radians a position, for pairs 0 .. head_size / 2 - 1; attributes as of the operation rotary.
std::vector<float> RotaryFrequencies(const Attributes& attributes, int64_t head_size);

// The table of a rotary operation; rounded to bfloat16 for bfloat16 tensors. Thread-safe.
std::shared_ptr<const RotaryTable> SharedRotaryTable(const KernelSpec& spec);

// The row of the table for row `row` of a tensor; positions (null: none given) outside the table are a broken
// invariant.
int64_t RotaryPosition(const int32_t* positions, int64_t row, int64_t length);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_ROTARY_TABLE_H_
