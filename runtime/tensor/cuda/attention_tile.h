// What attention and its gradient share: tiles of 32 rows of a head in shared memory, products of tiles whose sums stay
// in registers, and who sees whom.
//
// A block has four warps; each owns eight rows of a tile of 32. A tile is kept in float32, so that an element is
// widened once. Products of tiles are float32 on the CUDA cores: right for float32 and for every head size. bfloat16
// with heads of a multiple of eight features goes to the matrix unit instead (attention_matrix.h). No T x T matrix is
// ever stored; a head has up to 128 features.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_TILE_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_TILE_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/philox.h"

// Arrays of a thread stay in registers only where every index is known: their loops are unrolled. Others are kept as
// they are where registers are dear.
#ifdef __CUDACC__
#define REPRISE_UNROLL _Pragma("unroll")
#define REPRISE_ROLLED _Pragma("unroll 1")
#else
#define REPRISE_UNROLL
#define REPRISE_ROLLED
#endif

namespace reprise::cuda {

inline constexpr int kTile = 32;      // rows of a tile
inline constexpr int kTileWarps = 4;  // of a block
inline constexpr int kWarpRows = kTile / kTileWarps;
inline constexpr int kTileThreads = kTileWarps * kWarp;
inline constexpr int kMostHeadSize = 128;
// Floats from row to row: 16 bytes more than the row, so that eight lanes that read 16 bytes each, of a row each, meet
// in no bank.
inline constexpr int kScoreStride = kTile + 4;
constexpr int TileStride(int head_size) { return head_size + 4; }
constexpr int TileFloats(int head_size) { return kTile * TileStride(head_size); }
inline constexpr int kScoreFloats = kTile * kScoreStride;

// Products of tiles are millions of these: on a CPU, where fma may be a call, two operations take its place.
REPRISE_ON_DEVICE float MultiplyAdd(float a, float b, float c) {
#ifdef __CUDACC__
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// The inputs of one call, and what is random about it.
template <typename T>
struct AttentionTask {
  const T* q;  // head 0 of row 0; heads lie side by side
  const T* k;
  const T* v;
  const int32_t* starts;  // the first key that each row sees, or null
  const StepValues* step;
  int64_t q_stride;   // elements from row to row
  int64_t kv_stride;  // of k and v
  int64_t first_sequence;
  uint64_t operation;  // the operation's number (philox.h)
  int heads;
  int key_value_heads;
  int length;
  int size;
  int tiles;                // of a sequence
  uint32_t drop_threshold;  // 0: no dropout
  float kept;               // 1 / (1 - p)
  float scale;              // of scores
  bool causal;

  REPRISE_ON_DEVICE int KeyValueHead(int head) const { return head / (heads / key_value_heads); }
  REPRISE_ON_DEVICE int Start(int64_t sequence, int query) const {
    return starts == nullptr ? 0 : starts[sequence * length + query];
  }
  // The first key that any of the tile's queries sees.
  REPRISE_ON_DEVICE int FirstKey(int64_t sequence, int tile) const {
    if (starts == nullptr) return 0;
    const int first = tile * kTile;
    const int end = first + kTile < length ? first + kTile : length;
    int least = length;
    for (int i = first; i < end; ++i) {
      const int start = Start(sequence, i);
      least = start < least ? start : least;
    }
    return least;
  }
  REPRISE_ON_DEVICE bool Sees(int query, int key, int start) const {
    return query < length && key < length && key >= start && (!causal || key <= query);
  }
  REPRISE_ON_DEVICE RandomKey Key() const {
    return drop_threshold == 0 ? RandomKey{} : MakeRandomKey(step->seed, step->step, operation);
  }
};

// What dropout multiplies the probabilities of keys [key, key + 8) of a query with; `key` is a multiple of four.
template <typename T>
REPRISE_ON_DEVICE void DrawKept(const AttentionTask<T>& task, RandomKey random, int64_t sequence, int head, int query,
                                int key, float (&kept)[kWarpRows]) {
  if (task.drop_threshold == 0) {
    REPRISE_UNROLL
    for (float& factor : kept) factor = 1;
    return;
  }
  const int64_t row_groups = (task.length + 3) / 4;
  const int64_t group = (static_cast<int64_t>(head) * task.length + query) * row_groups + key / 4;
  REPRISE_UNROLL
  for (int half = 0; half < kWarpRows / 4; ++half) {
    const std::array<uint32_t, 4> bits = RandomBits(random, task.first_sequence + sequence, group + half);
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      kept[half * 4 + i] = bits[static_cast<size_t>(i)] < task.drop_threshold ? 0 : task.kept;
    }
  }
}

// Fills a tile with rows [first, first + kTile) of a matrix of `size` columns; zeros beyond its `rows` and columns.
template <int kSize, int N, typename T>
REPRISE_ON_DEVICE void LoadTilePacks(const T* matrix, int64_t stride, int first, int rows, int size, float* tile) {
  for (int element = Thread() * N; element < kTile * kSize; element += kTileThreads * N) {
    const int r = element / kSize;
    const int c = element % kSize;
    Pack<T, N> from = {};
    if (first + r < rows && c < size) from = LoadPack<N>(matrix + (first + r) * stride + c);
    float* to = tile + r * TileStride(kSize) + c;
    REPRISE_UNROLL
    for (int i = 0; i < N; ++i) to[i] = Widened(from.values[i]);
  }
}

// Rows of a head are aligned to a pack where its size is a multiple of one.
template <int kSize, typename T>
REPRISE_ON_DEVICE void LoadTile(const T* matrix, int64_t stride, int first, int rows, int size, float* tile) {
  constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));
  if (size % kPack == 0) {
    LoadTilePacks<kSize, kPack>(matrix, stride, first, rows, size, tile);
  } else {
    LoadTilePacks<kSize, 1>(matrix, stride, first, rows, size, tile);
  }
}

// dots[r] = row r of this warp's rows of `a` times row Lane() of `b`.
template <int kSize>
REPRISE_ON_DEVICE void Dots(const float* a, const float* b, int size, float (&dots)[kWarpRows]) {
  const float* rows = a + Warp() * kWarpRows * TileStride(kSize);
  const float* column = b + Lane() * TileStride(kSize);
  REPRISE_UNROLL
  for (float& dot : dots) dot = 0;
  for (int c = 0; c < size; c += 4) {
    const Pack<float, 4> y = LoadPack<4>(column + c);
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      const Pack<float, 4> x = LoadPack<4>(rows + r * TileStride(kSize) + c);
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) dots[r] = MultiplyAdd(x.values[i], y.values[i], dots[r]);
    }
  }
}

// Sums of a warp's rows: lane l has columns l, l + 32, ... of each.
template <int kSize>
struct RowSums {
  static constexpr int kColumns = kSize / kWarp;
  float values[kWarpRows][kColumns];

  REPRISE_ON_DEVICE void Clear() {
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      REPRISE_UNROLL
      for (int n = 0; n < kColumns; ++n) values[r][n] = 0;
    }
  }

  // Adds `weights` times the tile: weights of this warp's rows are kScoreStride apart.
  REPRISE_ON_DEVICE void Add(const float* weights, const float* tile) {
    const float* rows = weights + Warp() * kWarpRows * kScoreStride;
    for (int j = 0; j < kTile; j += 4) {
      Pack<float, 4> factors[kWarpRows];
      REPRISE_UNROLL
      for (int r = 0; r < kWarpRows; ++r) factors[r] = LoadPack<4>(rows + r * kScoreStride + j);
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        REPRISE_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          const float x = tile[(j + i) * TileStride(kSize) + Lane() + n * kWarp];
          REPRISE_UNROLL
          for (int r = 0; r < kWarpRows; ++r) values[r][n] = MultiplyAdd(factors[r].values[i], x, values[r][n]);
        }
      }
    }
  }

  // To this warp's rows of the tile that begins at row `first` of a matrix.
  template <typename T>
  REPRISE_ON_DEVICE void Store(T* matrix, int64_t stride, int first, int rows, int size) const {
    REPRISE_UNROLL
    for (int r = 0; r < kWarpRows; ++r) {
      const int row = first + Warp() * kWarpRows + r;
      REPRISE_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const int c = Lane() + n * kWarp;
        if (row < rows && c < size) matrix[row * stride + c] = Rounded<T>(values[r][n]);
      }
    }
  }
};

// The geometry of a spec of attention or its gradient.
struct AttentionGeometry {
  bool packed;  // q, k and v side by side in one tensor, or three tensors
  bool documents;
  int64_t heads, key_value_heads, length, sequences, size;

  explicit AttentionGeometry(const KernelSpec& spec)
      : packed(!spec.attributes.Has("key_value_heads")),
        documents(spec.attributes.Has("documents")),
        heads(spec.attributes.Int("heads")),
        key_value_heads(packed ? heads : spec.attributes.Int("key_value_heads")),
        length(spec.attributes.Int("sequence_length")),
        sequences(spec.inputs[0].rows() / length),
        size(spec.inputs[0].columns() / heads / (packed ? 3 : 1)) {}

  int64_t TilesOf(int64_t rows) const { return (length + rows - 1) / rows; }  // of a sequence
  int64_t tiles() const { return TilesOf(kTile); }
  int64_t q_stride() const { return heads * size * (packed ? 3 : 1); }
  int64_t kv_stride() const { return packed ? q_stride() : key_value_heads * size; }
  // Of the inputs behind q, k and v.
  int Rest(int index) const { return (packed ? 1 : 3) + (documents ? 1 : 0) + index; }

  // The task of a call; arguments' pointers are filled in by Fill.
  template <typename T>
  AttentionTask<T> Task(const KernelSpec& spec) const {
    const double dropout = spec.attributes.Real("dropout");
    AttentionTask<T> task = {};
    task.q_stride = q_stride();
    task.kv_stride = kv_stride();
    task.operation = static_cast<uint64_t>(spec.attributes.Int("salt"));
    task.heads = static_cast<int>(heads);
    task.key_value_heads = static_cast<int>(key_value_heads);
    task.length = static_cast<int>(length);
    task.size = static_cast<int>(size);
    task.tiles = static_cast<int>(tiles());
    task.drop_threshold = DropThreshold(dropout);
    task.kept = static_cast<float>(1 / (1 - dropout));
    task.scale = 1 / std::sqrt(static_cast<float>(size));
    task.causal = spec.attributes.Int("causal") != 0;
    return task;
  }

  template <typename T>
  AttentionTask<T> Fill(AttentionTask<T> task, const KernelArguments& arguments) const {
    task.q = Input<T>(arguments, 0);
    task.k = packed ? task.q + heads * size : Input<T>(arguments, 1);
    task.v = packed ? task.q + 2 * heads * size : Input<T>(arguments, 2);
    task.starts = documents ? Input<int32_t>(arguments, Rest(-1)) : nullptr;
    task.step = arguments.step;
    task.first_sequence = arguments.first_sequence;
    task.operation = OperationNumber(arguments.block, static_cast<int64_t>(task.operation));
    return task;
  }
};

// Calls function(std::integral_constant<int, kSize>{}) for the least tile that holds a head.
template <typename Function>
KernelOr WithTileSize(int64_t size, const Function& function) {
  if (size <= 32) return function(std::integral_constant<int, 32>{});
  if (size <= 64) return function(std::integral_constant<int, 64>{});
  if (size <= 96) return function(std::integral_constant<int, 96>{});
  return function(std::integral_constant<int, 128>{});
}

// Calls function(T{}, std::integral_constant<int, kSize>{}) for the element type and the least tile that holds a head.
template <typename Function>
KernelOr WithHeadSize(const KernelSpec& spec, int64_t size, const Function& function) {
  if (size > kMostHeadSize) {
    return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has no cuda kernel for heads of ",
                                                 size, ", only up to ", kMostHeadSize));
  }
  return WithTileSize(
      size, [&](auto kSize) { return WithElementType(spec, [&](auto type) { return function(type, kSize); }); });
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_ATTENTION_TILE_H_
