// Attention backward in two passes, without atomics, so that every sum has one order: a block a tile of keys of one
// key-value head sums dk and dv over the queries of its group of heads, then a block a tile of queries sums dq over the
// keys. Both make probabilities again from lse and draw the same masks.
//
// With p of lse, z the dropout factor, and delta = do . o of each query (a pass of its own, in scratch):
//   dv = (p z)' do,  ds = p (z do v' - delta) scale,  dq = ds k,  dk = ds' q
#include "runtime/tensor/cuda/attention_gradient.h"
#include "runtime/tensor/cuda/attention_matrix.h"
#include "runtime/tensor/cuda/attention_tile.h"

namespace reprise::cuda {
namespace {

// The shared memory of a block of either pass.
template <int kSize>
struct Tiles {
  float* q;
  float* d_o;
  float* k;
  float* v;
  float* p;   // the first pass only, [key, query]
  float* ds;  // [key, query], in the second pass [query, key]

  static constexpr int64_t kBytes = (4 * TileFloats(kSize) + 2 * kScoreFloats) * static_cast<int64_t>(sizeof(float));

  static REPRISE_ON_DEVICE Tiles Make() {
    float* start = Shared<float>();
    return {start,
            start + TileFloats(kSize),
            start + 2 * TileFloats(kSize),
            start + 3 * TileFloats(kSize),
            start + 4 * TileFloats(kSize),
            start + 4 * TileFloats(kSize) + kScoreFloats};
  }
};

template <int kSize, typename T>
REPRISE_ON_DEVICE void LoadQueries(const GradientTask<T>& task, int64_t sequence, int head, int tile,
                                   const Tiles<kSize>& tiles) {
  const AttentionTask<T>& forward = task.forward;
  const int64_t row = sequence * forward.length;
  const int64_t column = static_cast<int64_t>(head) * forward.size;
  const int64_t o_stride = static_cast<int64_t>(forward.heads) * forward.size;
  LoadTile<kSize>(forward.q + row * forward.q_stride + column, forward.q_stride, tile * kTile, forward.length,
                  forward.size, tiles.q);
  LoadTile<kSize>(task.d_o + row * o_stride + column, o_stride, tile * kTile, forward.length, forward.size, tiles.d_o);
}

template <int kSize, typename T>
REPRISE_ON_DEVICE void LoadKeys(const AttentionTask<T>& forward, int64_t offset, int tile, const Tiles<kSize>& tiles) {
  LoadTile<kSize>(forward.k + offset, forward.kv_stride, tile * kTile, forward.length, forward.size, tiles.k);
  LoadTile<kSize>(forward.v + offset, forward.kv_stride, tile * kTile, forward.length, forward.size, tiles.v);
}

// Of the query of this lane and the eight keys of this warp.
struct Scores {
  float p[kWarpRows];  // with dropout
  float ds[kWarpRows];
};

template <int kSize, typename T>
REPRISE_ON_DEVICE Scores ScoresOf(const GradientTask<T>& task, const Tiles<kSize>& tiles, RandomKey random,
                                  int64_t sequence, int head, int query_tile, int key_tile) {
  const AttentionTask<T>& forward = task.forward;
  Scores scores;
  Dots<kSize>(tiles.k, tiles.q, forward.size, scores.p);
  Dots<kSize>(tiles.v, tiles.d_o, forward.size, scores.ds);
  const int query = query_tile * kTile + Lane();
  const int key = key_tile * kTile + Warp() * kWarpRows;
  float kept[kWarpRows];
  DrawKept(forward, random, sequence, head, query, key, kept);
  const bool exists = query < forward.length;
  const int64_t item = (sequence * forward.heads + head) * forward.length + query;
  const float lse = exists ? task.lse[item] : 0;
  const float delta = exists ? task.delta[item] : 0;
  const int start = exists ? forward.Start(sequence, query) : 0;
  REPRISE_UNROLL
  for (int r = 0; r < kWarpRows; ++r) {
    const bool sees = forward.Sees(query, key + r, start);
    const float p = sees ? std::exp(scores.p[r] * forward.scale - lse) : 0;
    scores.p[r] = p * kept[r];
    scores.ds[r] = sees ? p * (scores.ds[r] * kept[r] - delta) * forward.scale : 0;
  }
  return scores;
}

template <typename T, int kSize>
REPRISE_KERNEL void KeyGradients(GradientTask<T> task) {
  const AttentionTask<T>& forward = task.forward;
  const Tiles<kSize> tiles = Tiles<kSize>::Make();
  const int64_t columns = task.sequences * forward.key_value_heads;
  const int tile = static_cast<int>(BlockX() / columns);  // causal: the longest begin first
  const int64_t sequence = BlockX() % columns / forward.key_value_heads;
  const int key_value_head = static_cast<int>(BlockX() % forward.key_value_heads);
  const int group = forward.heads / forward.key_value_heads;
  const int last_key = tile * kTile + kTile - 1;
  const int64_t offset = KeyValueOffset(forward, sequence, key_value_head);
  const RandomKey random = forward.Key();
  LoadKeys<kSize>(forward, offset, tile, tiles);
  RowSums<kSize> dk;
  RowSums<kSize> dv;
  dk.Clear();
  dv.Clear();
  for (int head = key_value_head * group; head < (key_value_head + 1) * group; ++head) {
    for (int query_tile = forward.causal ? tile : 0; query_tile < forward.tiles; ++query_tile) {
      if (forward.FirstKey(sequence, query_tile) > last_key) continue;  // the same in all threads
      Barrier();
      LoadQueries<kSize>(task, sequence, head, query_tile, tiles);
      Barrier();
      const Scores scores = ScoresOf<kSize>(task, tiles, random, sequence, head, query_tile, tile);
      REPRISE_UNROLL
      for (int r = 0; r < kWarpRows; ++r) {
        const int place = (Warp() * kWarpRows + r) * kScoreStride + Lane();
        tiles.p[place] = scores.p[r];
        tiles.ds[place] = scores.ds[r];
      }
      WarpBarrier();  // a warp reads what it wrote itself
      dv.Add(tiles.p, tiles.d_o);
      dk.Add(tiles.ds, tiles.q);
    }
  }
  if (task.dk != nullptr) dk.Store(task.dk + offset, forward.kv_stride, tile * kTile, forward.length, forward.size);
  if (task.dv != nullptr) dv.Store(task.dv + offset, forward.kv_stride, tile * kTile, forward.length, forward.size);
}

template <typename T, int kSize>
REPRISE_KERNEL void QueryGradients(GradientTask<T> task) {
  const AttentionTask<T>& forward = task.forward;
  const Tiles<kSize> tiles = Tiles<kSize>::Make();
  const int64_t columns = task.sequences * forward.heads;
  const int tile = forward.tiles - 1 - static_cast<int>(BlockX() / columns);
  const int64_t sequence = BlockX() % columns / forward.heads;
  const int head = static_cast<int>(BlockX() % forward.heads);
  const int64_t offset = KeyValueOffset(forward, sequence, forward.KeyValueHead(head));
  const RandomKey random = forward.Key();
  LoadQueries<kSize>(task, sequence, head, tile, tiles);
  RowSums<kSize> dq;
  dq.Clear();
  const int end = forward.causal ? tile + 1 : forward.tiles;
  for (int key_tile = forward.FirstKey(sequence, tile) / kTile; key_tile < end; ++key_tile) {
    Barrier();
    LoadKeys<kSize>(forward, offset, key_tile, tiles);
    Barrier();
    const Scores scores = ScoresOf<kSize>(task, tiles, random, sequence, head, tile, key_tile);
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) tiles.ds[Lane() * kScoreStride + Warp() * kWarpRows + r] = scores.ds[r];
    Barrier();
    dq.Add(tiles.ds, tiles.k);
  }
  dq.Store(task.dq + sequence * forward.length * forward.q_stride + static_cast<int64_t>(head) * forward.size,
           forward.q_stride, tile * kTile, forward.length, forward.size);
}

KernelOr MakeAttentionGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const AttentionGeometry geometry(spec);
  if (TakesMatrixUnit(spec, geometry)) return MakeMatrixAttentionGradient(spec, geometry);
  return WithHeadSize(spec, geometry.size, [&]<typename T, typename S>(T /*type*/, S /*head size*/) {
    const auto run = [geometry, prepared = geometry.Task<T>(spec)](const KernelArguments& arguments) {
      const GradientTask<T> task = MakeGradientTask(geometry, prepared, arguments);
      const int64_t tiles = geometry.tiles() * geometry.sequences;
      LaunchQueryDeltas(geometry, task);
      if (task.dk != nullptr || task.dv != nullptr) {
        Launch({.blocks = tiles * geometry.key_value_heads,
                .threads = kTileThreads,
                .shared_bytes = Tiles<S::value>::kBytes},
               KeyGradients<T, S::value>, task);
      }
      if (task.dq != nullptr) {
        Launch({.blocks = tiles * geometry.heads, .threads = kTileThreads, .shared_bytes = Tiles<S::value>::kBytes},
               QueryGradients<T, S::value>, task);
      }
    };
    return MakeCudaKernel(spec, run, DeltaBytes(geometry));
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("attention_gradient", KernelKind::kCuda, MakeAttentionGradient);

}  // namespace
}  // namespace reprise::cuda
