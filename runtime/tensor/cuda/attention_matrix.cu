// Attention forward on the matrix unit (Dao 2023, "FlashAttention-2"): a block a tile of queries of one head, which
// goes over the tiles of 64 keys. Queries, scores, probabilities and outputs stay in registers; keys and values pass
// through two stages of shared memory.
#include "runtime/tensor/cuda/attention_matrix.h"

namespace reprise::cuda {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int kKeys = 64;  // of a tile

// The larger one that is not NaN.
REPRISE_ON_DEVICE float Higher(float a, float b) {
#ifdef __CUDACC__
  return fmaxf(a, b);
#else
  return b > a ? b : a;  // `a` is never NaN here
#endif
}

// Of the queries of a warp: a lane has two of each block, and shares them with its three neighbours.
template <int kBlocks>
struct WarpSoftmax {
  float highest[kBlocks][2];  // score so far, not yet scaled
  float sum[kBlocks][2];      // of this lane's exponentials

  REPRISE_ON_DEVICE void Clear() {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        highest[b][half] = kLowest;
        sum[b][half] = 0;
      }
    }
  }

  // Of what the exponentials are taken: before there is a score above the lowest, all are 0.
  static REPRISE_ON_DEVICE float Base(float highest, float scale) { return highest == kLowest ? 0 : highest * scale; }

  // Turns scores into exponentials, 2^(score * scale - base), and rescales the outputs so far.
  template <int kTileKeys, int kSize>
  REPRISE_ON_DEVICE void Update(float scale, WarpSums<kBlocks, kTileKeys>& scores, WarpSums<kBlocks, kSize>& outputs) {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float higher = highest[b][half];
        REPRISE_UNROLL
        for (int n = 0; n < kTileKeys / 8; ++n) {
          higher = Higher(Higher(higher, scores.values[b][n][2 * half]), scores.values[b][n][2 * half + 1]);
        }
        REPRISE_UNROLL
        for (int distance = 1; distance < 4; distance *= 2) {
          higher = Higher(higher, FromLane(higher, Lane() ^ distance));
        }
        const float base = Base(higher, scale);
        float added = 0;
        REPRISE_UNROLL
        for (int n = 0; n < kTileKeys / 8; ++n) {
          REPRISE_UNROLL
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores.values[b][n][i] = PowerOfTwo(MultiplyAdd(scores.values[b][n][i], scale, -base));
            added += scores.values[b][n][i];
          }
        }
        const float factor = PowerOfTwo(MultiplyAdd(highest[b][half], scale, -base));
        highest[b][half] = higher;
        sum[b][half] = MultiplyAdd(sum[b][half], factor, added);
        REPRISE_UNROLL
        for (int n = 0; n < kSize / 8; ++n) {
          outputs.values[b][n][2 * half] *= factor;
          outputs.values[b][n][2 * half + 1] *= factor;
        }
      }
    }
  }

  // Adds up what the lanes of a query have.
  REPRISE_ON_DEVICE void Finish() {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        REPRISE_UNROLL
        for (int distance = 1; distance < 4; distance *= 2) {
          sum[b][half] += FromLane(sum[b][half], Lane() ^ distance);
        }
      }
    }
  }

  // After Finish: the logarithms of the sums of what scores are exponents of, for queries from `first` on.
  REPRISE_ON_DEVICE void StoreLse(float scale, float* lse, int first, int queries) const {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int query = first + b * kBlockRows + half * 8 + RowOfLane();
        if (Lane() % 4 != 0 || query >= queries) continue;
        lse[query] = MultiplyAdd(Base(highest[b][half], scale), kLogOf2, std::log(sum[b][half]));
      }
    }
  }
};

// Two stages of keys and values. The queries come through the second one, before it is needed.
template <int kSize>
struct KeyStages {
  static constexpr int kElements = kKeys * MatrixStride(kSize);
  static constexpr int64_t kBytes = 4 * kElements * static_cast<int64_t>(sizeof(BFloat16));

  static REPRISE_ON_DEVICE BFloat16* Keys(int stage) { return Shared<BFloat16>() + stage * 2 * kElements; }
  static REPRISE_ON_DEVICE BFloat16* Values(int stage) { return Keys(stage) + kElements; }
};

template <int kSize, int kBlocks>
REPRISE_KERNEL void REPRISE_BLOCKS(kTileThreads, kBlocksOfSm)
    MatrixAttention(AttentionTask<BFloat16> task, int64_t sequences, BFloat16* o, float* lse) {
  using Stages = KeyStages<kSize>;
  constexpr int kQueries = kTileWarps * kBlocks * kBlockRows;
  static_assert(kQueries <= 2 * kKeys, "the queries must fit a stage");
  const int tiles = (task.length + kQueries - 1) / kQueries;
  const BlockPlace at(sequences, task.heads);
  const int sequence = at.sequence;
  const int head = at.head;
  const int tile = tiles - 1 - at.order;  // causal: the longest begin first
  const int64_t row = static_cast<int64_t>(sequence) * task.length;
  const int64_t kv = row * task.kv_stride + static_cast<int64_t>(task.KeyValueHead(head)) * task.size;

  const int last = tile * kQueries + kQueries < task.length ? tile * kQueries + kQueries : task.length;
  const int end = ((task.causal ? last : task.length) + kKeys - 1) / kKeys;
  int key_tile = StartsOf(task, sequence, tile * kQueries, kQueries).least / kKeys;
  AsyncCopies copies;
  const auto start_keys = [&](int index, int stage) {
    if (index < end) {
      StartRows<kSize, kKeys>(copies, task.k + kv, task.kv_stride, index * kKeys, task.length, task.size,
                              Stages::Keys(stage));
      StartRows<kSize, kKeys>(copies, task.v + kv, task.kv_stride, index * kKeys, task.length, task.size,
                              Stages::Values(stage));
    }
    copies.Commit();
  };
  StartRows<kSize, kQueries>(copies, task.q + row * task.q_stride + static_cast<int64_t>(head) * task.size,
                             task.q_stride, tile * kQueries, task.length, task.size, Stages::Keys(1));
  copies.Commit();
  start_keys(key_tile, 0);

  const int first_query = tile * kQueries + Warp() * kBlocks * kBlockRows;  // of this warp
  const int latest_start = StartsOf(task, sequence, first_query, kBlocks * kBlockRows).latest;

  copies.Wait<1>();
  Barrier();
  LeftFragment queries[kBlocks][kSize / 16];
  const WarpRows<kSize, kBlocks> query_rows(Stages::Keys(1));
  REPRISE_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    REPRISE_UNROLL
    for (int k = 0; k < kSize / 16; ++k) queries[b][k] = query_rows(b, k);
  }

  WarpSoftmax<kBlocks> softmax;
  WarpSums<kBlocks, kSize> outputs;
  softmax.Clear();
  outputs.Clear();
  const float scale = task.scale * kLog2OfE;
  for (int stage = 0; key_tile < end; ++key_tile, stage ^= 1) {
    copies.Wait<0>();
    Barrier();  // all copies of this stage are there, and nobody reads the other one any more
    start_keys(key_tile + 1, stage ^ 1);
    WarpBarrier();
    const int first_key = key_tile * kKeys;
    if (task.causal && first_key >= first_query + kBlocks * kBlockRows) continue;  // the same in all of a warp
    WarpSums<kBlocks, kKeys> scores;
    scores.Clear();
    scores.template AddDots<kSize>([&](int b, int k) { return queries[b][k]; }, Stages::Keys(stage));
    if (!SeeAll(task, first_query, latest_start, first_key, kKeys)) {
      MaskQueries(task, sequence, first_query, first_key, kLowest, scores);
    }
    softmax.Update(scale, scores, outputs);
    if (task.drop_threshold != 0) {
      KeptOfQueries<kBlocks, kKeys / 8> kept;
      kept.Draw(DropoutDraw(task, sequence, head), first_query, first_key);
      scores.ForEach([&](float& score, int b, int n, int i) { score = kept.Keeps(b, n, i) ? score : 0; });
    }
    outputs.AddRows(scores, Stages::Values(stage));
  }
  softmax.Finish();
  if (lse != nullptr) {
    softmax.StoreLse(scale, lse + (static_cast<int64_t>(sequence) * task.heads + head) * task.length, first_query,
                     task.length);
  }
  if (o == nullptr) return;
  const int64_t o_stride = static_cast<int64_t>(task.heads) * task.size;
  outputs.Store(o + row * o_stride + static_cast<int64_t>(head) * task.size, o_stride, first_query, task.length,
                task.size, [&](int b, int half) { return task.kept / softmax.sum[b][half]; });
}

}  // namespace

KernelOr MakeMatrixAttention(const KernelSpec& spec, const AttentionGeometry& geometry) {
  return WithTileSize(geometry.size, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    constexpr int kBlocks = kSize <= 64 ? 2 : 1;
    constexpr int kQueries = kTileWarps * kBlocks * kBlockRows;
    return MakeCudaKernel(spec, [geometry, prepared = geometry.Task<BFloat16>(spec)](const KernelArguments& arguments) {
      if (arguments.outputs[0] == nullptr && arguments.outputs[1] == nullptr) return;
      Launch({.blocks = geometry.TilesOf(kQueries) * geometry.sequences * geometry.heads,
              .threads = kTileThreads,
              .shared_bytes = KeyStages<kSize>::kBytes},
             MatrixAttention<kSize, kBlocks>, geometry.Fill(prepared, arguments), geometry.sequences,
             Output<BFloat16>(arguments, 0), Output<float>(arguments, 1));
    });
  });
}

}  // namespace reprise::cuda
