// Attention backward on the matrix unit, in the two passes of attention_gradient.cu: a block a tile of keys of one
// key-value head, over the queries of its group of heads; then a block a tile of queries, over the keys. The other side
// goes by in tiles of 32 rows, in two stages of shared memory. A warp's scores are [key, query] in the first pass and
// [query, key] in the second: its own rows are always those of its sums.
#include "runtime/tensor/cuda/attention_gradient.h"
#include "runtime/tensor/cuda/attention_matrix.h"

namespace reprise::cuda {
namespace {

using Task = GradientTask<BFloat16>;

constexpr int kPassing = 32;  // rows of a tile of the side that goes by

// A tile of rows of each of two matrices, in shared memory.
template <int kSize, int kRows>
struct TilePair {
  static constexpr int kElements = kRows * MatrixStride(kSize);
  static constexpr int64_t kBytes = 2 * kElements * static_cast<int64_t>(sizeof(BFloat16));

  BFloat16* first;

  REPRISE_ON_DEVICE BFloat16* second() const { return first + kElements; }
  REPRISE_ON_DEVICE void Start(AsyncCopies& copies, const BFloat16* a, int64_t a_stride, const BFloat16* b,
                               int64_t b_stride, int row, int rows, int size) const {
    StartRows<kSize, kRows>(copies, a, a_stride, row, rows, size, first);
    StartRows<kSize, kRows>(copies, b, b_stride, row, rows, size, second());
  }
};

// The probability of a score, and of do . v, with dropout, the gradient of the score, not yet scaled.
struct ScoreGradient {
  float scale;  // of scores, to powers of two

  REPRISE_ON_DEVICE void Apply(float& score, float& gradient, float lse, float delta, bool sees) const {
    score = sees ? PowerOfTwo(MultiplyAdd(score, scale, -lse * kLog2OfE)) : 0;
    gradient = sees ? score * (gradient - delta) : 0;
  }
};

// The rows of a head in q and do, from the first of a sequence.
struct QueryRows {
  const BFloat16* q;
  const BFloat16* d_o;
  int64_t d_o_stride;
  int64_t item;  // of lse and delta

  REPRISE_ON_DEVICE QueryRows(const Task& task, int64_t sequence, int head)
      : q(task.forward.q + sequence * task.forward.length * task.forward.q_stride +
          static_cast<int64_t>(head) * task.forward.size),
        d_o(task.d_o + (sequence * task.forward.length * task.forward.heads + head) * task.forward.size),
        d_o_stride(static_cast<int64_t>(task.forward.heads) * task.forward.size),
        item((sequence * task.forward.heads + head) * task.forward.length) {}
};

// Queries that go by, as they lie in shared memory: rows of q and do, and one number for each.
struct PassingRows {
  const BFloat16* q;
  const BFloat16* d_o;
  const float* lse;
  const float* delta;
  const int* starts;  // undefined where the task has none
  int query;          // the first
};

// What a block has in shared memory: its own rows, two stages of those that go by, and of queries that go by what there
// is one of for each.
template <int kSize, int kOwn>
struct GradientMemory {
  using Own = TilePair<kSize, kOwn>;
  using Passing = TilePair<kSize, kPassing>;
  static constexpr int64_t kBytes =
      Own::kBytes + 2 * (Passing::kBytes + 3 * kPassing * static_cast<int64_t>(sizeof(float)));

  static REPRISE_ON_DEVICE Own OwnRows() { return {Shared<BFloat16>()}; }
  static REPRISE_ON_DEVICE Passing Stage(int stage) {
    return {Shared<BFloat16>() + 2 * Own::kElements + stage * 2 * Passing::kElements};
  }
  // lse, delta and starts of a stage, one behind the other.
  static REPRISE_ON_DEVICE float* Numbers(int stage) {
    return reinterpret_cast<float*>(Stage(2).first) + stage * 3 * kPassing;
  }

  static REPRISE_ON_DEVICE void StartQueries(AsyncCopies& copies, const Task& task, int sequence, int head, int first,
                                             int stage) {
    const AttentionTask<BFloat16>& forward = task.forward;
    const QueryRows rows(task, sequence, head);
    Stage(stage).Start(copies, rows.q, forward.q_stride, rows.d_o, rows.d_o_stride, first, forward.length,
                       forward.size);
    if (Thread() >= 3 * kPassing) return;
    const int query = first + Thread() % kPassing;
    const bool exists = query < forward.length;
    const void* from = task.lse + rows.item + (exists ? query : 0);
    if (Thread() / kPassing == 1) from = task.delta + rows.item + (exists ? query : 0);
    if (Thread() / kPassing == 2) {
      if (forward.starts == nullptr) return;
      from = forward.starts + static_cast<int64_t>(sequence) * forward.length + (exists ? query : 0);
    }
    copies.Start<4>(Numbers(stage) + Thread(), from, exists);
  }

  // From the `index`th row of a stage on, which is that of `query`.
  static REPRISE_ON_DEVICE PassingRows Rows(int stage, int index, int query) {
    const float* numbers = Numbers(stage) + index;
    return {Stage(stage).first + index * MatrixStride(kSize),
            Stage(stage).second() + index * MatrixStride(kSize),
            numbers,
            numbers + kPassing,
            reinterpret_cast<const int*>(numbers + 2 * kPassing),
            query};
  }
};

// Goes over the tiles of queries that see a tile of keys: those of each head of the group in turn.
class PassingQueries {
 public:
  REPRISE_ON_DEVICE PassingQueries(const Task& task, int sequence, int key_value_head, int first_key, int keys)
      : forward_(task.forward),
        sequence_(sequence),
        last_key_(first_key + keys - 1),
        first_tile_(task.forward.causal ? first_key / kPassing : 0),
        tiles_((task.forward.length + kPassing - 1) / kPassing),
        head_(key_value_head * (task.forward.heads / task.forward.key_value_heads)),
        heads_end_(head_ + task.forward.heads / task.forward.key_value_heads),
        tile_(first_tile_ - 1) {}

  // The same in all threads of a block.
  REPRISE_ON_DEVICE bool Next() {
    while (true) {
      if (++tile_ == tiles_) {
        tile_ = first_tile_;
        if (++head_ == heads_end_) return false;
      }
      if (StartsOf(forward_, sequence_, query(), kPassing).least <= last_key_) return true;
    }
  }
  REPRISE_ON_DEVICE int head() const { return head_; }
  REPRISE_ON_DEVICE int query() const { return tile_ * kPassing; }

 private:
  const AttentionTask<BFloat16>& forward_;
  int sequence_;
  int last_key_;
  int first_tile_;
  int tiles_;
  int head_;
  int heads_end_;
  int tile_;
};

// What a warp sums for its keys.
template <int kSize, int kBlocks>
struct KeySums {
  WarpSums<kBlocks, kSize> dk;
  WarpSums<kBlocks, kSize> dv;

  // Of kQueries queries of a head, for keys from `key` on, whose rows are k and v.
  template <int kQueries>
  REPRISE_ON_DEVICE void Add(const AttentionTask<BFloat16>& task, int sequence, int head, const PassingRows& rows,
                             int key, const WarpRows<kSize, kBlocks>& k, const WarpRows<kSize, kBlocks>& v) {
    WarpSums<kBlocks, kQueries> scores;  // [key, query]
    WarpSums<kBlocks, kQueries> gradients;
    scores.Clear();
    gradients.Clear();
    scores.template AddDots<kSize>(k, rows.q);
    gradients.template AddDots<kSize>(v, rows.d_o);
    KeptOfKeys<kBlocks, kQueries / 8> kept;
    if (task.drop_threshold != 0) {
      kept.Draw(DropoutDraw(task, sequence, head), rows.query, key);
      gradients.ForEach([&](float& dp, int b, int n, int i) { dp = kept.Keeps(b, n, i) ? dp * task.kept : 0; });
    }
    const bool whole = task.starts == nullptr && rows.query + kQueries <= task.length &&
                       key + kBlocks * kBlockRows <= (task.causal ? rows.query + 1 : task.length);
    if (whole) {
      ApplySoftmax<false>(task, rows, key, scores, gradients);
    } else {
      ApplySoftmax<true>(task, rows, key, scores, gradients);
      WarpBarrier();  // its lanes may have gone different ways
    }
    if (task.drop_threshold != 0) {
      scores.ForEach([&](float& p, int b, int n, int i) { p = kept.Keeps(b, n, i) ? p : 0; });
    }
    dv.AddRows(scores, rows.d_o);
    dk.AddRows(gradients, rows.q);
  }

  template <bool kMasked, int kQueries>
  static REPRISE_ON_DEVICE void ApplySoftmax(const AttentionTask<BFloat16>& task, const PassingRows& rows, int key,
                                             WarpSums<kBlocks, kQueries>& scores,
                                             WarpSums<kBlocks, kQueries>& gradients) {
    const ScoreGradient score_gradient{task.scale * kLog2OfE};
    scores.ForEach([&](float& score, int b, int n, int i) {
      const int index = n * 8 + ColumnOfLane() + i % 2;
      bool sees = true;
      if constexpr (kMasked) {
        const int query = rows.query + index;
        sees = query < task.length && SeesKey(task, query, task.starts == nullptr ? 0 : rows.starts[index],
                                              key + b * kBlockRows + i / 2 * 8 + RowOfLane());
      }
      score_gradient.Apply(score, gradients.values[b][n][i], rows.lse[index], rows.delta[index], sees);
    });
  }
};

// kColumns: of how many queries a warp has scores at once.
template <int kSize, int kBlocks, int kColumns>
REPRISE_KERNEL void REPRISE_BLOCKS(kTileThreads, kBlocksOfSm) MatrixKeyGradients(Task task) {
  constexpr int kKeys = kTileWarps * kBlocks * kBlockRows;
  using Memory = GradientMemory<kSize, kKeys>;
  const AttentionTask<BFloat16>& forward = task.forward;
  const BlockPlace at(task.sequences, forward.key_value_heads);
  const int first = at.order * kKeys;  // causal: the longest begin first
  const int64_t offset = KeyValueOffset(forward, at.sequence, at.head);
  const int first_key = first + Warp() * kBlocks * kBlockRows;  // of this warp

  AsyncCopies copies;
  Memory::OwnRows().Start(copies, forward.k + offset, forward.kv_stride, forward.v + offset, forward.kv_stride, first,
                          forward.length, forward.size);
  PassingQueries next(task, at.sequence, at.head, first, kKeys);
  bool more = next.Next();
  if (more) Memory::StartQueries(copies, task, at.sequence, next.head(), next.query(), 0);
  copies.Commit();

  KeySums<kSize, kBlocks> sums;
  sums.dk.Clear();
  sums.dv.Clear();
  const WarpRows<kSize, kBlocks> k(Memory::OwnRows().first);
  const WarpRows<kSize, kBlocks> v(Memory::OwnRows().second());
  for (int stage = 0; more; stage ^= 1) {
    const int head = next.head();
    const int first_query = next.query();
    more = next.Next();
    copies.Wait<0>();
    Barrier();  // all copies of this stage are there, and nobody reads the other one any more
    if (more) Memory::StartQueries(copies, task, at.sequence, next.head(), next.query(), stage ^ 1);
    copies.Commit();
    WarpBarrier();
    REPRISE_ROLLED
    for (int i = 0; i < kPassing; i += kColumns) {
      if (forward.causal && first_key >= first_query + i + kColumns) continue;  // the same in all of a warp
      sums.template Add<kColumns>(forward, at.sequence, head, Memory::Rows(stage, i, first_query + i), first_key, k, v);
    }
  }
  if (task.dk != nullptr) {
    sums.dk.Store(task.dk + offset, forward.kv_stride, first_key, forward.length, forward.size,
                  [&](int, int) { return forward.scale; });
  }
  if (task.dv != nullptr) {
    sums.dv.Store(task.dv + offset, forward.kv_stride, first_key, forward.length, forward.size,
                  [&](int, int) { return forward.kept; });
  }
}

template <int kSize, int kBlocks>
REPRISE_KERNEL void REPRISE_BLOCKS(kTileThreads, kBlocksOfSm) MatrixQueryGradients(Task task) {
  constexpr int kQueries = kTileWarps * kBlocks * kBlockRows;
  using Memory = GradientMemory<kSize, kQueries>;
  const AttentionTask<BFloat16>& forward = task.forward;
  const int tiles = (forward.length + kQueries - 1) / kQueries;
  const BlockPlace at(task.sequences, forward.heads);
  const int sequence = at.sequence;
  const int head = at.head;
  const int first = (tiles - 1 - at.order) * kQueries;
  const int64_t offset = KeyValueOffset(forward, sequence, forward.KeyValueHead(head));
  const QueryRows rows(task, sequence, head);
  const int first_query = first + Warp() * kBlocks * kBlockRows;  // of this warp
  const int last = first + kQueries < forward.length ? first + kQueries : forward.length;
  const int end = ((forward.causal ? last : forward.length) + kPassing - 1) / kPassing;
  int key_tile = StartsOf(forward, sequence, first, kQueries).least / kPassing;
  const int latest_start = StartsOf(forward, sequence, first_query, kBlocks * kBlockRows).latest;

  AsyncCopies copies;
  const auto start_keys = [&](int index, int stage) {
    if (index < end) {
      Memory::Stage(stage).Start(copies, forward.k + offset, forward.kv_stride, forward.v + offset, forward.kv_stride,
                                 index * kPassing, forward.length, forward.size);
    }
    copies.Commit();
  };
  Memory::OwnRows().Start(copies, rows.q, forward.q_stride, rows.d_o, rows.d_o_stride, first, forward.length,
                          forward.size);
  start_keys(key_tile, 0);

  const ScoreGradient score_gradient{forward.scale * kLog2OfE};
  float lse[kBlocks][2];
  float delta[kBlocks][2];
  REPRISE_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + b * kBlockRows + half * 8 + RowOfLane();
      const bool exists = query < forward.length;
      lse[b][half] = exists ? task.lse[rows.item + query] : 0;
      delta[b][half] = exists ? task.delta[rows.item + query] : 0;
    }
  }
  WarpSums<kBlocks, kSize> dq;
  dq.Clear();
  const WarpRows<kSize, kBlocks> q(Memory::OwnRows().first);
  const WarpRows<kSize, kBlocks> d_o(Memory::OwnRows().second());
  for (int stage = 0; key_tile < end; ++key_tile, stage ^= 1) {
    copies.Wait<0>();
    Barrier();  // all copies of this stage are there, and nobody reads the other one any more
    start_keys(key_tile + 1, stage ^ 1);
    WarpBarrier();
    const int first_key = key_tile * kPassing;
    if (forward.causal && first_key >= first_query + kBlocks * kBlockRows) continue;  // the same in all of a warp
    const auto passing = Memory::Stage(stage);
    WarpSums<kBlocks, kPassing> scores;  // [query, key]
    WarpSums<kBlocks, kPassing> gradients;
    scores.Clear();
    gradients.Clear();
    scores.template AddDots<kSize>(q, passing.first);
    gradients.template AddDots<kSize>(d_o, passing.second());
    if (forward.drop_threshold != 0) {
      KeptOfQueries<kBlocks, kPassing / 8> kept;
      kept.Draw(DropoutDraw(forward, sequence, head), first_query, first_key);
      gradients.ForEach(
          [&](float& value, int b, int n, int i) { value = kept.Keeps(b, n, i) ? value * forward.kept : 0; });
    }
    scores.ForEach([&](float& score, int b, int n, int i) {
      score_gradient.Apply(score, gradients.values[b][n][i], lse[b][i / 2], delta[b][i / 2], true);
    });
    if (!SeeAll(forward, first_query, latest_start, first_key, kPassing)) {
      MaskQueries(forward, sequence, first_query, first_key, 0, gradients);
    }
    dq.AddRows(gradients, passing.first);
  }
  dq.Store(task.dq + sequence * forward.length * forward.q_stride + static_cast<int64_t>(head) * forward.size,
           forward.q_stride, first_query, forward.length, forward.size, [&](int, int) { return forward.scale; });
}

}  // namespace

KernelOr MakeMatrixAttentionGradient(const KernelSpec& spec, const AttentionGeometry& geometry) {
  return WithTileSize(geometry.size, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    constexpr int kKeyBlocks = kSize <= 64 ? 2 : 1;
    constexpr int kColumns = kSize == 64 ? kPassing / 2 : kPassing;
    constexpr int kQueryBlocks = kSize <= 64 ? 2 : 1;
    constexpr int kKeys = kTileWarps * kKeyBlocks * kBlockRows;
    constexpr int kQueries = kTileWarps * kQueryBlocks * kBlockRows;
    const auto run = [geometry, prepared = geometry.Task<BFloat16>(spec)](const KernelArguments& arguments) {
      const Task task = MakeGradientTask(geometry, prepared, arguments);
      LaunchQueryDeltas(geometry, task);
      if (task.dk != nullptr || task.dv != nullptr) {
        Launch({.blocks = geometry.TilesOf(kKeys) * geometry.sequences * geometry.key_value_heads,
                .threads = kTileThreads,
                .shared_bytes = GradientMemory<kSize, kKeys>::kBytes},
               MatrixKeyGradients<kSize, kKeyBlocks, kColumns>, task);
      }
      if (task.dq != nullptr) {
        Launch({.blocks = geometry.TilesOf(kQueries) * geometry.sequences * geometry.heads,
                .threads = kTileThreads,
                .shared_bytes = GradientMemory<kSize, kQueries>::kBytes},
               MatrixQueryGradients<kSize, kQueryBlocks>, task);
      }
    };
    return MakeCudaKernel(spec, run, DeltaBytes(geometry));
  });
}

}  // namespace reprise::cuda
