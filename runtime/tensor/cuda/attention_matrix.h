// What attention and its gradient share on the matrix unit (matrix_unit.h): tiles of bfloat16 rows in shared memory,
// sums of a warp, who sees whom and what dropout keeps, in the fragments that a lane has.
//
// For bfloat16 and heads of a multiple of eight features, so that rows are copied 16 bytes at once; others are products
// on the CUDA cores (attention_tile.h). A block has four warps. Each owns one or two blocks of 16 rows of the block's
// tile, whose sums stay in its registers while tiles of the other side go by in shared memory, copied while the tile
// before is multiplied. Probabilities, and gradients of scores, are rounded to bfloat16 between two products; a
// fragment of sums is a fragment of the next product's left side, so they never leave the registers either.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_MATRIX_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_MATRIX_H_

#include <array>
#include <cstdint>
#include <limits>

#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/cuda/async_copy.h"
#include "runtime/tensor/cuda/attention_tile.h"
#include "runtime/tensor/cuda/matrix_unit.h"

namespace reprise::cuda {

inline constexpr int kBlockRows = 16;      // of a warp's fragment
inline constexpr int kFeaturesOfPack = 8;  // 16 bytes
inline constexpr int kBlocksOfSm = 2;      // what registers and shared memory leave room for
inline constexpr float kLog2OfE = 1.44269504088896341F;
inline constexpr float kLogOf2 = 0.693147180559945309F;

// Elements from row to row: an odd number of 16 bytes, so that eight lanes that read 16 bytes of eight rows meet in no
// bank.
constexpr int MatrixStride(int head_size) { return head_size + kFeaturesOfPack; }

// Which query of the upper eight rows of a block, and which two columns of eight, a lane's sums are of.
REPRISE_ON_DEVICE int RowOfLane() { return Lane() / 4; }
REPRISE_ON_DEVICE int ColumnOfLane() { return Lane() % 4 * 2; }

// Which head of which sequence a block is for. Blocks of one tile of each head follow each other: a tile of all heads,
// then the next tile.
struct BlockPlace {
  int order;  // of the tile
  int sequence;
  int head;

  REPRISE_ON_DEVICE BlockPlace(int64_t sequences, int heads)
      : order(static_cast<int>(BlockX()) / static_cast<int>(sequences * heads)),
        sequence(static_cast<int>(BlockX()) % static_cast<int>(sequences * heads) / heads),
        head(static_cast<int>(BlockX()) % heads) {}
};

// Starts to copy rows [first, first + kRows) of a head; zeros beyond `rows` and `size`. A thread copies from one column
// of packs. Not unrolled: addresses of all its copies, kept from tile to tile, would take the registers of the sums.
template <int kSize, int kRows>
REPRISE_ON_DEVICE void StartRows(AsyncCopies& copies, const BFloat16* matrix, int64_t stride, int first, int rows,
                                 int size, BFloat16* tile) {
  constexpr int kPacks = kSize / kFeaturesOfPack;
  constexpr int kLanes = kPacks > 8 ? 16 : kPacks;  // of a row; 4 of the 16 have nothing to do where it has 96 features
  constexpr int kRowsAtOnce = kTileThreads / kLanes;
  static_assert(kTileThreads % kLanes == 0 && kRows % kRowsAtOnce == 0 && kPacks <= 16);
  const int column = Thread() % kLanes * kFeaturesOfPack;
  if (column >= kSize) return;
  int row = Thread() / kLanes;
  const BFloat16* from = matrix + (first + row) * stride + column;
  BFloat16* to = tile + row * MatrixStride(kSize) + column;
  REPRISE_ROLLED
  for (; row < kRows; row += kRowsAtOnce) {
    const bool exists = first + row < rows && column < size;
    copies.Start<kPackBytes>(to, exists ? from : matrix, exists);
    from += kRowsAtOnce * stride;
    to += kRowsAtOnce * MatrixStride(kSize);
  }
}

// Sums of a warp: kBlocks of 16 rows, by kColumns.
template <int kBlocks, int kColumns>
struct WarpSums {
  static constexpr int kTiles = kColumns / 8;

  float values[kBlocks][kTiles][4];

  REPRISE_ON_DEVICE void Clear() {
    ForEach([](float& value, int, int, int) { value = 0; });
  }

  // function(value, block, tile of columns, index of a lane's four).
  template <typename Function>
  REPRISE_ON_DEVICE void ForEach(const Function& function) {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) function(values[b][n][i], b, n, i);
      }
    }
  }

  // Adds the product of the warp's rows, left(block, step of 16 features), with kColumns rows of a tile.
  template <int kSize, typename Left>
  REPRISE_ON_DEVICE void AddDots(const Left& left, const BFloat16* tile) {
    REPRISE_UNROLL
    for (int k = 0; k < kSize / 16; ++k) {
      LeftFragment fragments[kBlocks];
      REPRISE_UNROLL
      for (int b = 0; b < kBlocks; ++b) fragments[b] = left(b, k);
      REPRISE_UNROLL
      for (int n = 0; n < kTiles; n += 2) {
        const auto right = LoadRightOfRows(tile + n * 8 * MatrixStride(kSize) + k * 16, MatrixStride(kSize));
        REPRISE_UNROLL
        for (int b = 0; b < kBlocks; ++b) AddProduct(fragments[b], right, values[b][n], values[b][n + 1]);
      }
    }
  }

  // Adds factors times the rows of a tile of kColumns features: a factor for each of kRows rows.
  template <int kRows>
  REPRISE_ON_DEVICE void AddRows(const WarpSums<kBlocks, kRows>& factors, const BFloat16* tile) {
    REPRISE_UNROLL
    for (int k = 0; k < kRows / 16; ++k) {
      LeftFragment fragments[kBlocks];
      REPRISE_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        fragments[b] = LeftOf(factors.values[b][2 * k], factors.values[b][2 * k + 1]);
      }
      REPRISE_UNROLL
      for (int n = 0; n < kTiles; n += 2) {
        const auto right = LoadRight(tile + k * 16 * MatrixStride(kColumns) + n * 8, MatrixStride(kColumns));
        REPRISE_UNROLL
        for (int b = 0; b < kBlocks; ++b) AddProduct(fragments[b], right, values[b][n], values[b][n + 1]);
      }
    }
  }

  // factor(block, half) times the warp's rows, which begin at row `first` of a head.
  template <typename Factor>
  REPRISE_ON_DEVICE void Store(BFloat16* matrix, int64_t stride, int first, int rows, int size,
                               const Factor& factor) const {
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = first + b * kBlockRows + half * 8 + RowOfLane();
        const float scale = factor(b, half);
        REPRISE_UNROLL
        for (int n = 0; n < kTiles; ++n) {
          const int column = n * 8 + ColumnOfLane();
          if (row >= rows || column >= size) continue;
          *reinterpret_cast<uint32_t*>(matrix + row * stride + column) =
              RoundedPair(values[b][n][2 * half] * scale, values[b][n][2 * half + 1] * scale);
        }
      }
    }
  }
};

// Blocks of 16 rows of a warp in a tile of shared memory, as left sides.
template <int kSize, int kBlocks>
struct WarpRows {
  const BFloat16* first;

  REPRISE_ON_DEVICE explicit WarpRows(const BFloat16* tile)
      : first(tile + Warp() * kBlocks * kBlockRows * MatrixStride(kSize)) {}
  REPRISE_ON_DEVICE LeftFragment operator()(int block, int k) const {
    return LoadLeft(first + block * kBlockRows * MatrixStride(kSize) + k * 16, MatrixStride(kSize));
  }
};

// ---------------------------------------------------------------------------------------------------- who sees whom

// Whether query `query`, which sees keys from `start` on, sees a key. Both may lie beyond the sequence: sums of such a
// query are nobody's.
template <typename T>
REPRISE_ON_DEVICE bool SeesKey(const AttentionTask<T>& task, int query, int start, int key) {
  return key >= start && key <= (task.causal ? query : task.length - 1);
}

// Where the keys begin that a query sees.
template <typename T>
REPRISE_ON_DEVICE int StartOf(const AttentionTask<T>& task, int64_t sequence, int query) {
  return query < task.length ? task.Start(sequence, query) : 0;
}

// Sets sums [query, key] of keys that a query does not see to `value`. Few tiles have any: those of the diagonal, of
// the end and of the beginning of a document, so starts are read again here rather than kept.
template <typename T, int kBlocks, int kColumns>
REPRISE_ON_DEVICE void MaskQueries(const AttentionTask<T>& task, int64_t sequence, int query, int key, float value,
                                   WarpSums<kBlocks, kColumns>& sums) {
  REPRISE_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int own = query + b * kBlockRows + half * 8 + RowOfLane();
      const int start = StartOf(task, sequence, own);
      REPRISE_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        REPRISE_UNROLL
        for (int i = 0; i < 2; ++i) {
          if (!SeesKey(task, own, start, key + n * 8 + ColumnOfLane() + i)) sums.values[b][n][2 * half + i] = value;
        }
      }
    }
  }
  WarpBarrier();  // its lanes may have gone different ways
}

// Whether each of a warp's queries, the first being `query`, sees all of keys [key, key + keys); `latest` is the latest
// start among them.
template <typename T>
REPRISE_ON_DEVICE bool SeeAll(const AttentionTask<T>& task, int query, int latest, int key, int keys) {
  return key >= latest && key + keys <= (task.causal ? query + 1 : task.length);
}

// The first key that any, and the first from which each of queries [first, first + count) sees. All lanes of a warp
// take part.
struct Starts {
  int least = 0;
  int latest = 0;
};

template <typename T>
REPRISE_ON_DEVICE Starts StartsOf(const AttentionTask<T>& task, int64_t sequence, int first, int count) {
  if (task.starts == nullptr) return {};
  Starts starts{task.length, 0};
  const auto take = [&](int least, int latest) {
    starts.least = least < starts.least ? least : starts.least;
    starts.latest = latest > starts.latest ? latest : starts.latest;
  };
  for (int i = first + Lane(); i < first + count && i < task.length; i += kWarp) {
    const int start = task.Start(sequence, i);
    take(start, start);
  }
  REPRISE_UNROLL
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int other = Lane() ^ distance;
    const auto least = static_cast<int>(FromLane(static_cast<uint32_t>(starts.least), other));
    take(least, static_cast<int>(FromLane(static_cast<uint32_t>(starts.latest), other)));
  }
  return starts;
}

// ---------------------------------------------------------------------------------------------------------- dropout

// Where one head of one sequence draws its mask. Made anew for each tile: kept, it would take nine registers of all
// calls, with dropout or without.
struct DropoutDraw {
  RandomKey random;
  int64_t sequence;   // in the global step
  int64_t first_row;  // rows of scores before the head's
  int64_t row_groups;
  uint32_t threshold;

  template <typename T>
  REPRISE_ON_DEVICE DropoutDraw(const AttentionTask<T>& task, int64_t of_sequence, int head)
      : random(task.Key()),
        sequence(task.first_sequence + of_sequence),
        first_row(static_cast<int64_t>(head) * task.length),
        row_groups((task.length + 3) / 4),
        threshold(task.drop_threshold) {}

  // Four bits: which of keys [key, key + 4) of a query are kept; `key` is a multiple of four.
  REPRISE_ON_DEVICE uint32_t Kept(int query, int key) const {
    const std::array<uint32_t, 4> bits = RandomBits(random, sequence, (first_row + query) * row_groups + key / 4);
    uint32_t kept = 0;
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) kept |= (bits[static_cast<size_t>(i)] < threshold ? 0U : 1U) << i;
    return kept;
  }
};

// What is kept of a warp's sums [query, key], whose rows begin at `query` and columns at `key`. A lane needs two keys
// of four of two queries of each block: with its neighbour it shares the draws, one query each.
template <int kBlocks, int kTiles>
struct KeptOfQueries {
  uint32_t words[kBlocks][2];  // of the upper and the lower eight rows; four bits a tile

  REPRISE_ON_DEVICE void Draw(const DropoutDraw& draw, int query, int key) {
    static_assert(kTiles <= 8);
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      uint32_t own = 0;
      REPRISE_ROLLED
      for (int n = 0; n < kTiles; ++n) {
        own |= draw.Kept(query + b * kBlockRows + Lane() % 2 * 8 + RowOfLane(), key + n * 8 + Lane() / 2 % 2 * 4)
               << (4 * n);
      }
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) words[b][half] = FromLane(own, (Lane() & ~1) | half);
    }
  }
  REPRISE_ON_DEVICE bool Keeps(int b, int n, int i) const {
    return (words[b][i / 2] >> (4 * n + Lane() % 2 * 2 + i % 2) & 1U) != 0;
  }
};

// The same of sums [key, query]: a lane needs one key of four of four draws of each block, which four lanes share.
template <int kBlocks, int kTiles>
struct KeptOfKeys {
  uint32_t words[kBlocks][4];

  REPRISE_ON_DEVICE void Draw(const DropoutDraw& draw, int query, int key) {
    static_assert(kTiles <= 8);
    const int part = Lane() / 4 % 4;  // the index of this lane's draw among a lane's four sums
    REPRISE_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      uint32_t own = 0;
      REPRISE_ROLLED
      for (int n = 0; n < kTiles; ++n) {
        own |=
            draw.Kept(query + n * 8 + ColumnOfLane() + part % 2, key + b * kBlockRows + part / 2 * 8 + Lane() / 16 * 4)
            << (4 * n);
      }
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) words[b][i] = FromLane(own, (Lane() & ~12) | i << 2);
    }
  }
  REPRISE_ON_DEVICE bool Keeps(int b, int n, int i) const {
    return (words[b][i] >> (4 * n + Lane() / 4 % 4) & 1U) != 0;
  }
};

// -------------------------------------------------------------------------------------------------------- selection

// Whether these kernels are for the spec.
inline bool TakesMatrixUnit(const KernelSpec& spec, const AttentionGeometry& geometry) {
  return ComputeType(spec) == DType::kBFloat16 && geometry.size % kFeaturesOfPack == 0 &&
         geometry.size <= kMostHeadSize;
}

KernelOr MakeMatrixAttention(const KernelSpec& spec, const AttentionGeometry& geometry);
KernelOr MakeMatrixAttentionGradient(const KernelSpec& spec, const AttentionGeometry& geometry);

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_MATRIX_H_
