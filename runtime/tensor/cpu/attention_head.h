// Attention of one head of one sequence, tiled so that scores never leave the cache (Dao 2023, "FlashAttention-2").
//
// Tiles are kAttentionTile queries by as many keys. Forward keeps for each query the highest score so far, the sum of
// exponentials and the output, and rescales them as keys go by. Backward goes over tiles of keys and inside over those
// of queries: dk and dv of a tile are complete when its loop ends, dq is summed in scratch in the order of key tiles.
// All arithmetic is float32; results depend on nothing but the inputs.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_H_
#define REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_H_

#include <cstddef>
#include <cstdint>

#include "runtime/tensor/philox.h"

namespace reprise {

inline constexpr int64_t kAttentionTile = 48;

struct AttentionShape {
  int64_t heads = 1;
  int64_t length = 1;  // of a sequence
  int64_t size = 1;    // of a head
  bool causal = true;
  bool bfloat16 = false;  // else float32
  double dropout = 0;

  int64_t columns() const { return heads * size; }
  int64_t tiles() const { return (length + kAttentionTile - 1) / kAttentionTile; }
};

// Pointers are to the start of the sequence's rows: qkv and dqkv [length, 3 columns], o and d_o [length, columns], but
// lse to the head's `length` values. Outputs may be null.
struct AttentionHead {
  int64_t head = 0;
  const std::byte* qkv = nullptr;
  const std::byte* o = nullptr;
  const std::byte* d_o = nullptr;
  const float* lse = nullptr;
  float* scratch = nullptr;
  RandomKey key;
  int64_t sequence = 0;  // in the global step
};

// Floats of scratch, 64-byte aligned.
int64_t AttentionForwardScratch(const AttentionShape& shape);
int64_t AttentionBackwardScratch(const AttentionShape& shape);

// Outputs of query tiles first, first + step, ...
void AttentionForward(const AttentionShape& shape, const AttentionHead& head, int64_t first, int64_t step, std::byte* o,
                      float* lse);

void AttentionBackward(const AttentionShape& shape, const AttentionHead& head, std::byte* dqkv);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_H_
