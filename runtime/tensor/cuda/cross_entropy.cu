// linear_cross_entropy in chunks of rows, forward and backward of a chunk together, so that no logits outlive it.
//
// A chunk: logits = y w' (float32); a block a row turns them into the row's loss and, in place, its gradient, rounded
// to the type of y: in bfloat16 it fills the first half of the row. Then dy = dlogits w, dw += dlogits' y, and the
// bias's gradient adds up the columns. Chunks follow from the vocabulary and the number of rows alone: no plan or
// budget changes a sum. Losses are summed at the end, in float64.
#include <cmath>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/tensor/cuda/block_sum.h"
#include "runtime/tensor/cuda/column_sums.h"
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/cuda/product.h"

namespace reprise::cuda {
namespace {

constexpr int32_t kNotCounted = -100;
constexpr int kRowThreads = 512;
constexpr int64_t kAlignment = 256;  // of parts of the scratch

template <typename T>
struct RowTask {
  float* logits;  // [rows, vocabulary]; dlogits of T take their place
  const int32_t* labels;
  const T* bias;  // or null
  double* losses;
  int64_t vocabulary;
  bool backward;
};

template <int N, typename T>
REPRISE_ON_DEVICE Pack<float, N> LoadLogits(const RowTask<T>& task, const float* row, int64_t v) {
  Pack<float, N> logits = LoadPack<N>(row + v);
  if (task.bias == nullptr) return logits;
  const Pack<T, N> bias = LoadPack<N>(task.bias + v);
  for (int k = 0; k < N; ++k) logits.values[k] += Widened(bias.values[k]);
  return logits;
}

// The highest logit that a thread has seen and the sum of exp(logit - highest) over them.
struct Exponentials {
  float highest = -std::numeric_limits<float>::infinity();
  float sum = 0;

  template <int N>
  REPRISE_ON_DEVICE void Add(const Pack<float, N>& logits) {
    float higher = highest;
    for (const float logit : logits.values) higher = logit > higher ? logit : higher;
    if (higher > highest) {
      sum *= std::exp(highest - higher);
      highest = higher;
    }
    // An infinitely low logit adds nothing, also before there is another; NaN stays NaN.
    for (const float logit : logits.values) {
      sum += logit == -std::numeric_limits<float>::infinity() ? 0 : std::exp(logit - highest);
    }
  }

  // Of all threads of the block.
  REPRISE_ON_DEVICE Exponentials OfBlock() const {
    auto* shared = Shared<float>();
    Exponentials all{.highest = highest, .sum = 0};
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const float other = FromLane(all.highest, Lane() ^ distance);
      all.highest = other > all.highest ? other : all.highest;
    }
    Barrier();
    if (Lane() == 0) shared[Warp()] = all.highest;
    Barrier();
    for (int warp = 0; warp < Warps(); ++warp) all.highest = shared[warp] > all.highest ? shared[warp] : all.highest;
    const bool empty = highest == -std::numeric_limits<float>::infinity();
    all.sum = BlockSum(sum * (empty ? 0 : std::exp(highest - all.highest)));
    return all;
  }
};

// Rows are turned stripe by stripe: all threads have read a stripe before one writes, and no later stripe is reached
// by what is written, since T is no longer than float.
template <typename T, int N, typename Function>
REPRISE_ON_DEVICE void RewriteRow(const RowTask<T>& task, float* row, const Function& gradient) {
  T* to = reinterpret_cast<T*>(row);
  for (int64_t first = 0; first < task.vocabulary; first += int64_t{N} * Threads()) {
    const int64_t v = first + int64_t{N} * Thread();
    Pack<T, N> gradients = {};
    if (v < task.vocabulary) gradients = gradient(v);
    Barrier();
    if (v < task.vocabulary) StorePack(gradients, to + v);
  }
}

template <typename T, int N>
REPRISE_KERNEL void CrossEntropyRow(RowTask<T> task) {
  float* row = task.logits + BlockX() * task.vocabulary;
  const int32_t label = task.labels[BlockX()];
  if (label == kNotCounted) {
    if (Thread() == 0) task.losses[BlockX()] = 0;
    if (task.backward) RewriteRow<T, N>(task, row, [](int64_t) { return Pack<T, N>{}; });
    return;
  }
  Exponentials own;
  for (int64_t v = int64_t{N} * Thread(); v < task.vocabulary; v += int64_t{N} * Threads()) {
    own.Add(LoadLogits<N>(task, row, v));
  }
  const Exponentials all = own.OfBlock();
  if (Thread() == 0) {
    const float logit = LoadLogits<1>(task, row, label).values[0];
    task.losses[BlockX()] = all.highest + std::log(all.sum) - logit;
  }
  if (!task.backward) return;
  RewriteRow<T, N>(task, row, [&](int64_t v) {
    const Pack<float, N> logits = LoadLogits<N>(task, row, v);
    Pack<T, N> gradients;
    for (int k = 0; k < N; ++k) {
      const float p = std::exp(logits.values[k] - all.highest) / all.sum;
      gradients.values[k] = Rounded<T>(v + k == label ? p - 1 : p);
    }
    return gradients;
  });
}

REPRISE_KERNEL void SumLosses(const double* losses, int64_t rows, double* loss, bool accumulate) {
  double sum = 0;
  for (int64_t row = Thread(); row < rows; row += Threads()) sum += losses[row];
  sum = BlockSum(sum);
  if (Thread() == 0) Put(*loss, sum, accumulate);
}

// Logits of about 256 MiB, in 512 to 4096 rows: each product of a chunk reads all of w, or reads and writes all of dw.
int64_t ChunkRows(int64_t rows, int64_t vocabulary) {
  const int64_t most = std::clamp<int64_t>((int64_t{256} << 20) / (4 * vocabulary), 512, 4096);
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, RoundUp((rows + chunks - 1) / chunks, 16));
}

// The products of a chunk of `rows` rows.
struct ChunkProducts {
  std::unique_ptr<const Product> logits;
  std::unique_ptr<const Product> dy;  // with gradients, as is dw
  std::unique_ptr<const Product> dw;

  int64_t scratch_bytes() const {
    int64_t bytes = 0;
    for (const auto* product : {&logits, &dy, &dw}) {
      if (*product != nullptr) bytes = std::max(bytes, (*product)->scratch_bytes());
    }
    return bytes;
  }
};

absl::StatusOr<ChunkProducts> MakeProducts(const KernelSpec& spec, int64_t rows) {
  const int64_t vocabulary = spec.inputs[1].rows();
  const int64_t columns = spec.inputs[1].columns();
  const DType dtype = spec.inputs[0].dtype;
  ChunkProducts products;
  ASSIGN_OR_RETURN(products.logits,
                   MakeProduct({.m = rows, .n = vocabulary, .k = columns, .inputs = dtype, .transpose_b = true}));
  if (spec.attributes.Int("gradients") == 0) return products;
  const int64_t stride = vocabulary * 4 / SizeOf(dtype);
  ASSIGN_OR_RETURN(
      products.dy,
      MakeProduct({.m = rows, .n = columns, .k = vocabulary, .inputs = dtype, .output = dtype, .a_stride = stride}));
  ASSIGN_OR_RETURN(
      products.dw,
      MakeProduct(
          {.m = vocabulary, .n = columns, .k = rows, .inputs = dtype, .transpose_a = true, .a_stride = stride}));
  return products;
}

template <typename T>
class LinearCrossEntropy : public Kernel {
 public:
  LinearCrossEntropy(const KernelSpec& spec, int64_t chunk, ChunkProducts whole, ChunkProducts rest)
      : rows_(spec.inputs[0].rows()),
        columns_(spec.inputs[0].columns()),
        vocabulary_(spec.inputs[1].rows()),
        chunk_(chunk),
        gradients_(spec.attributes.Int("gradients") != 0),
        has_bias_(spec.inputs.size() > 3),
        whole_(std::move(whole)),
        rest_(std::move(rest)),
        logits_bytes_(RoundUp(chunk * vocabulary_ * 4, kAlignment)),
        losses_bytes_(RoundUp(rows_ * 8, kAlignment)) {
    if (!has_bias_ || !gradients_) return;
    const int64_t rest_rows = rows_ % chunk_;
    partials_bytes_ = ColumnSums(chunk_, vocabulary_).scratch_bytes();
    if (rest_rows != 0) partials_bytes_ = std::max(partials_bytes_, ColumnSums(rest_rows, vocabulary_).scratch_bytes());
    partials_bytes_ = RoundUp(partials_bytes_, kAlignment);
  }

  int64_t scratch_bytes() const override {
    return logits_bytes_ + losses_bytes_ + partials_bytes_ + std::max(whole_.scratch_bytes(), Rest().scratch_bytes());
  }

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK(!Accumulates(arguments, 1)) << "linear_cross_entropy: dy is assigned, never added to";
    for (int64_t row = 0; row < rows_; row += chunk_) RunChunk(arguments, row);
    auto* loss = Output<double>(arguments, 0);
    if (loss == nullptr) return;
    Launch({.threads = kThreads, .shared_bytes = kBlockSumBytes}, SumLosses, Losses(arguments), rows_, loss,
           Accumulates(arguments, 0));
  }

 private:
  const ChunkProducts& Rest() const { return rows_ % chunk_ == 0 ? whole_ : rest_; }

  double* Losses(const KernelArguments& arguments) const {
    return reinterpret_cast<double*>(arguments.scratch + logits_bytes_);
  }

  void RunChunk(const KernelArguments& arguments, int64_t row) const {
    const int64_t rows = std::min(chunk_, rows_ - row);
    const ChunkProducts& products = rows == chunk_ ? whole_ : Rest();
    const auto* y = reinterpret_cast<const std::byte*>(Input<T>(arguments, 0) + row * columns_);
    T* dy = gradients_ ? Output<T>(arguments, 1) : nullptr;
    std::byte* dw = gradients_ ? arguments.outputs[2] : nullptr;
    auto* dbias = gradients_ && has_bias_ ? Output<float>(arguments, 3) : nullptr;
    std::byte* logits = arguments.scratch;
    std::byte* partials = logits + logits_bytes_ + losses_bytes_;
    std::byte* scratch = partials + partials_bytes_;
    const auto adds = [&](int output) { return row > 0 || Accumulates(arguments, output); };

    products.logits->Run({.a = y, .b = arguments.inputs[1], .c = logits, .scratch = scratch});
    StartRows({.logits = reinterpret_cast<float*>(logits),
               .labels = Input<int32_t>(arguments, 2) + row,
               .bias = has_bias_ ? Input<T>(arguments, 3) : nullptr,
               .losses = Losses(arguments) + row,
               .vocabulary = vocabulary_,
               .backward = dy != nullptr || dw != nullptr || dbias != nullptr},
              rows);
    if (dy != nullptr) {
      auto* to = reinterpret_cast<std::byte*>(dy + row * columns_);
      products.dy->Run({.a = logits, .b = arguments.inputs[1], .c = to, .scratch = scratch});
    }
    if (dw != nullptr) {
      products.dw->Run({.a = logits, .b = y, .c = dw, .accumulate = adds(2), .scratch = scratch});
    }
    if (dbias != nullptr) {
      const ColumnSums sums(rows, vocabulary_);
      auto* to = reinterpret_cast<float*>(partials);
      constexpr int64_t kPerFloat = static_cast<int64_t>(sizeof(float) / sizeof(T));
      sums.Sum(reinterpret_cast<const T*>(logits), kPerFloat * vocabulary_, to, dbias, adds(3));
    }
  }

  void StartRows(const RowTask<T>& task, int64_t rows) const {
    constexpr int kPack = 4;
    const bool packed = vocabulary_ % kPack == 0;
    const int64_t packs = packed ? vocabulary_ / kPack : vocabulary_;
    const int threads = packs < kRowThreads ? ThreadsFor(packs) : kRowThreads;
    Launch({.blocks = rows, .threads = threads, .shared_bytes = kBlockSumBytes},
           packed ? CrossEntropyRow<T, kPack> : CrossEntropyRow<T, 1>, task);
  }

  int64_t rows_;
  int64_t columns_;
  int64_t vocabulary_;
  int64_t chunk_;
  bool gradients_;
  bool has_bias_;
  ChunkProducts whole_;
  ChunkProducts rest_;  // of the last rows, where they are fewer
  int64_t logits_bytes_;
  int64_t losses_bytes_;
  int64_t partials_bytes_ = 0;
};

KernelOr Make(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const DType dtype = ComputeType(spec);
  if (dtype == DType::kFloat64) return MakeCudaKernel(spec, nullptr);
  const int64_t rows = spec.inputs[0].rows();
  const int64_t chunk = ChunkRows(rows, spec.inputs[1].rows());
  ASSIGN_OR_RETURN(ChunkProducts whole, MakeProducts(spec, chunk));
  ChunkProducts rest;
  if (rows % chunk != 0) {
    ASSIGN_OR_RETURN(rest, MakeProducts(spec, rows % chunk));
  }
  if (dtype == DType::kBFloat16) {
    return std::make_unique<LinearCrossEntropy<BFloat16>>(spec, chunk, std::move(whole), std::move(rest));
  }
  return std::make_unique<LinearCrossEntropy<float>>(spec, chunk, std::move(whole), std::move(rest));
}

[[maybe_unused]] const bool registered = RegisterKernel("linear_cross_entropy", KernelKind::kCuda, Make);

}  // namespace
}  // namespace reprise::cuda
