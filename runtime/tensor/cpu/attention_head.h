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
  int64_t heads = 1;            // of queries
  int64_t key_value_heads = 1;  // divides `heads`
  int64_t length = 1;           // of a sequence
  int64_t size = 1;             // of a head
  bool causal = true;
  bool bfloat16 = false;  // else float32
  double dropout = 0;

  int64_t group() const { return heads / key_value_heads; }  // query heads that read one key-value head
  int64_t tiles() const { return (length + kAttentionTile - 1) / kAttentionTile; }
};

// One head's matrix [length, size] inside a sequence's rows: its first element, and elements from row to row.
struct HeadInput {
  const std::byte* data = nullptr;
  int64_t stride = 0;
};
struct HeadOutput {
  std::byte* data = nullptr;  // null: not wanted
  int64_t stride = 0;
};

// q, o, d_o and lse are of query head `head`, k and v of the key-value head that it reads.
struct AttentionHead {
  int64_t head = 0;
  HeadInput q;
  HeadInput k;
  HeadInput v;
  HeadInput o;
  HeadInput d_o;
  const float* lse = nullptr;
  float* scratch = nullptr;
  RandomKey key;
  int64_t sequence = 0;  // in the global step
  // Of each row of the sequence, in a causal attention: the first key that it sees. Null: the first of all.
  const int32_t* starts = nullptr;
};

// Floats of scratch, 64-byte aligned.
int64_t AttentionForwardScratch(const AttentionShape& shape);
int64_t AttentionBackwardScratch(const AttentionShape& shape);

// Outputs of query tiles first, first + step, ...; `lse`, which may be null, has `length` values.
void AttentionForward(const AttentionShape& shape, const AttentionHead& head, int64_t first, int64_t step, HeadOutput o,
                      float* lse);

// Gradients of one key-value head and of the group of query heads that read it, of which `head` is the first and the
// others stand behind it. dk and dv sum over the group in the order of heads.
void AttentionBackward(const AttentionShape& shape, const AttentionHead& head, HeadOutput dq, HeadOutput dk,
                       HeadOutput dv);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_ATTENTION_HEAD_H_
