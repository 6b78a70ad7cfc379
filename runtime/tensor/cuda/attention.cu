// Attention forward (Dao 2023, "FlashAttention-2"): a block a tile of queries of one head, which goes over the tiles of
// keys. It holds of each query the highest score so far, the sum of exponentials and the output, and rescales them as
// keys go by. On the CUDA cores, or (attention_matrix.cu) on the matrix unit.
#include "runtime/tensor/cuda/attention_matrix.h"
#include "runtime/tensor/cuda/attention_tile.h"

namespace reprise::cuda {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Four neighbouring lanes share a query of their warp: each has eight keys of a tile.
constexpr int kLanesOfQuery = kWarp / kWarpRows;

REPRISE_ON_DEVICE float Higher(float a, float b) { return b > a ? b : a; }

// What the four lanes of a query know of it.
struct Softmax {
  float highest = kLowest;
  float sum = 0;

  // Turns the query's eight scores of this lane into exponentials, 0 where it does not see the key. Returns what
  // multiplies all that was summed before.
  template <typename Sees>
  REPRISE_ON_DEVICE float Update(float (&scores)[kWarpRows], const Sees& sees) {
    float higher = highest;
    REPRISE_UNROLL
    for (int i = 0; i < kWarpRows; ++i) {
      if (sees(i)) higher = Higher(higher, scores[i]);
    }
    REPRISE_UNROLL
    for (int distance = 1; distance < kLanesOfQuery; distance *= 2) {
      higher = Higher(higher, FromLane(higher, Lane() ^ distance));
    }
    float added = 0;
    REPRISE_UNROLL
    for (int i = 0; i < kWarpRows; ++i) {
      // An infinitely low score counts nothing, also before there is another; NaN stays NaN.
      scores[i] = sees(i) && scores[i] != kLowest ? std::exp(scores[i] - higher) : 0;
      added += scores[i];
    }
    REPRISE_UNROLL
    for (int distance = 1; distance < kLanesOfQuery; distance *= 2) added += FromLane(added, Lane() ^ distance);
    const float factor = highest == kLowest ? 0 : std::exp(highest - higher);
    sum = sum * factor + added;
    highest = higher;
    return factor;
  }
};

template <typename T, int kSize>
REPRISE_KERNEL void AttentionForward(AttentionTask<T> task, int64_t sequences, T* o, float* lse) {
  const int64_t columns = sequences * task.heads;
  const int tile = task.tiles - 1 - static_cast<int>(BlockX() / columns);  // causal: the longest begin first
  const int64_t sequence = BlockX() % columns / task.heads;
  const int head = static_cast<int>(BlockX() % task.heads);
  const int64_t row = sequence * task.length;
  const int64_t kv = row * task.kv_stride + static_cast<int64_t>(task.KeyValueHead(head)) * task.size;
  float* queries = Shared<float>();
  float* keys = queries + TileFloats(kSize);  // and then values
  float* scores = keys + TileFloats(kSize);
  float* factors = scores + kScoreFloats;  // of the queries

  LoadTile<kSize>(task.q + row * task.q_stride + static_cast<int64_t>(head) * task.size, task.q_stride, tile * kTile,
                  task.length, task.size, queries);
  const int own = Warp() * kWarpRows + Lane() / kLanesOfQuery;  // the query of this lane in the tile
  const int query = tile * kTile + own;
  const int first_key = Lane() % kLanesOfQuery * kWarpRows;
  const int start = query < task.length ? task.Start(sequence, query) : 0;
  const RandomKey random = task.Key();
  Softmax softmax;
  RowSums<kSize> sums;
  sums.Clear();
  const int end = task.causal ? tile + 1 : task.tiles;
  for (int key_tile = task.FirstKey(sequence, tile) / kTile; key_tile < end; ++key_tile) {
    Barrier();
    LoadTile<kSize>(task.k + kv, task.kv_stride, key_tile * kTile, task.length, task.size, keys);
    Barrier();
    float dots[kWarpRows];
    Dots<kSize>(queries, keys, task.size, dots);
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      scores[(Warp() * kWarpRows + r) * kScoreStride + Lane()] = dots[r] * task.scale;
    }
    Barrier();
    LoadTile<kSize>(task.v + kv, task.kv_stride, key_tile * kTile, task.length, task.size, keys);
    float* place = scores + own * kScoreStride + first_key;
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) dots[r] = place[r];
    const int key = key_tile * kTile + first_key;
    const float factor = softmax.Update(dots, [&](int i) { return task.Sees(query, key + i, start); });
    float kept[kWarpRows];
    DrawKept(task, random, sequence, head, query, key, kept);
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) place[r] = dots[r] * kept[r];
    if (first_key == 0) factors[own] = factor;
    Barrier();
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      const float rescale = factors[Warp() * kWarpRows + r];
      REPRISE_UNROLL
      for (float& value : sums.values[r]) value *= rescale;
    }
    sums.Add(scores, keys);
  }
  Barrier();
  if (first_key == 0) factors[own] = softmax.sum;
  Barrier();
  if (lse != nullptr && first_key == 0 && query < task.length) {
    lse[(sequence * task.heads + head) * task.length + query] = softmax.highest + std::log(softmax.sum);
  }
  if (o == nullptr) return;
  REPRISE_UNROLL
  for (int r = 0; r < kWarpRows; ++r) {
    const float sum = factors[Warp() * kWarpRows + r];
    REPRISE_UNROLL
    for (float& value : sums.values[r]) value /= sum;
  }
  const int64_t o_stride = static_cast<int64_t>(task.heads) * task.size;
  sums.Store(o + row * o_stride + static_cast<int64_t>(head) * task.size, o_stride, tile * kTile, task.length,
             task.size);
}

KernelOr MakeAttention(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const AttentionGeometry geometry(spec);
  if (TakesMatrixUnit(spec, geometry)) return MakeMatrixAttention(spec, geometry);
  return WithHeadSize(spec, geometry.size, [&]<typename T, typename S>(T /*type*/, S /*head size*/) {
    return MakeCudaKernel(spec, [geometry, prepared = geometry.Task<T>(spec)](const KernelArguments& arguments) {
      constexpr int64_t kFloats = 2 * TileFloats(S::value) + kScoreFloats + kTile;
      if (arguments.outputs[0] == nullptr && arguments.outputs[1] == nullptr) return;
      Launch({.blocks = geometry.tiles() * geometry.sequences * geometry.heads,
              .threads = kTileThreads,
              .shared_bytes = kFloats * static_cast<int64_t>(sizeof(float))},
             AttentionForward<T, S::value>, geometry.Fill(prepared, arguments), geometry.sequences,
             Output<T>(arguments, 0), Output<float>(arguments, 1));
    });
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("attention", KernelKind::kCuda, MakeAttention);

}  // namespace
}  // namespace reprise::cuda
