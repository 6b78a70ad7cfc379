// linear_cross_entropy in chunks of rows: forward and backward of a chunk together, so that no logits outlive it.
//
// A chunk: logits = y w' (float32), loss and dlogits of each row in place, dy = dlogits w, dw += dlogits' y. The first
// chunk assigns dw (or adds, with the accumulate bit), the others add with oneDNN, so dw is summed in the order of
// chunks; so is the bias's gradient, from sums over the rows of each. Chunks follow from the shape alone: no plan,
// budget or number of threads changes a sum.
#include <algorithm>
#include <memory>
#include <optional>

#include "base/check.h"
#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/cpu/bfloat16_rows.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/product.h"
#include "runtime/tensor/cpu/softmax_rows.h"
#include "runtime/tensor/kernel.h"

namespace reprise {
namespace {

constexpr int32_t kNotCounted = -100;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Logits of about 8 MiB, but 128 to 512 rows: each product of a chunk reads all of w or dw, and with 64 rows the three
// take a tenth longer at a vocabulary of 50257.
int64_t ChunkRows(int64_t rows, int64_t vocabulary) {
  const int64_t most = std::clamp<int64_t>((int64_t{8} << 20) / (4 * vocabulary), 128, 512);
  const int64_t chunks = (rows + most - 1) / most;
  return std::min(rows, ((rows + chunks - 1) / chunks + 15) / 16 * 16);
}

// The products of a chunk of `rows` rows.
struct ChunkProducts {
  Product logits;
  std::optional<Product> dy;
  std::optional<Product> dw;

  ChunkProducts(const KernelSpec& spec, int64_t rows, DType dlogits, int threads)
      : logits({.m = rows,
                .n = spec.inputs[1].shape[0],
                .k = spec.inputs[1].shape[1],
                .a = spec.inputs[0].dtype,
                .b = spec.inputs[0].dtype,
                .transpose_b = true,
                .threads = threads}) {
    if (spec.attributes.Int("gradients") == 0) return;
    const int64_t vocabulary = spec.inputs[1].shape[0];
    const int64_t columns = spec.inputs[1].shape[1];
    const DType dtype = spec.inputs[0].dtype;
    // dlogits stand in the rows of the logits: in bfloat16 each fills the first half of its row.
    ProductSpec product = {.m = rows,
                           .n = columns,
                           .k = vocabulary,
                           .a = dlogits,
                           .b = dtype,
                           .c = dtype,
                           .a_stride = vocabulary * 4 / SizeOf(dlogits),
                           .threads = threads};
    dy.emplace(product);
    product.m = vocabulary;
    product.k = rows;
    product.c = DType::kFloat32;
    product.transpose_a = true;
    dw.emplace(product);
  }

  int64_t scratch_bytes() const {
    int64_t bytes = logits.scratch_bytes();
    if (dy.has_value()) bytes = std::max({bytes, dy->scratch_bytes(), dw->scratch_bytes()});
    return bytes;
  }
};

class LinearCrossEntropy : public Kernel {
 public:
  LinearCrossEntropy(const KernelSpec& spec, int threads)
      : threads_(threads),
        dtype_(spec.inputs[0].dtype),
        // Where oneDNN lacks bfloat16, the products would widen dlogits again.
        dlogits_(dtype_ == DType::kBFloat16 && HasBFloat16Products() ? DType::kBFloat16 : DType::kFloat32),
        rows_(spec.inputs[0].rows()),
        columns_(spec.inputs[0].columns()),
        vocabulary_(spec.inputs[1].shape[0]),
        chunk_(ChunkRows(rows_, vocabulary_)),
        gradients_(spec.attributes.Int("gradients") != 0),
        has_bias_(spec.inputs.size() == 4),
        whole_(spec, chunk_, dlogits_, threads) {
    const int64_t rest = rows_ % chunk_;
    if (rest != 0) rest_.emplace(spec, rest, dlogits_, threads);
    logits_bytes_ = Aligned(chunk_ * vocabulary_ * 4);
    losses_bytes_ = Aligned(chunk_ * 8);
    bias_bytes_ = has_bias_ ? Aligned(vocabulary_ * 4) : 0;
  }

  int64_t scratch_bytes() const override {
    return logits_bytes_ + losses_bytes_ + bias_bytes_ +
           std::max(whole_.scratch_bytes(), rest_ ? rest_->scratch_bytes() : 0);
  }

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK((arguments.accumulate & 0b10U) == 0) << "linear_cross_entropy: dy is assigned, never added to";
    double total = 0;
    if (has_bias_) WidenBias(arguments);
    for (int64_t row = 0; row < rows_; row += chunk_) RunChunk(arguments, row, total);
    auto* loss = reinterpret_cast<double*>(arguments.outputs[0]);
    if (loss != nullptr) *loss = (arguments.accumulate & 1U) != 0 ? *loss + total : total;
  }

 private:
  // In scratch, behind logits and losses.
  float* Bias(const KernelArguments& arguments) const {
    return reinterpret_cast<float*>(arguments.scratch + logits_bytes_ + losses_bytes_);
  }

  void WidenBias(const KernelArguments& arguments) const {
    float* bias = Bias(arguments);
    if (dtype_ == DType::kFloat32) {
      std::copy_n(Input<float>(arguments, 3), vocabulary_, bias);
    } else {
      const auto* narrow = Input<BFloat16>(arguments, 3);
      for (int64_t v = 0; v < vocabulary_; ++v) bias[v] = static_cast<float>(narrow[v]);
    }
  }

  void RunChunk(const KernelArguments& arguments, int64_t row, double& total) const {
    const int64_t rows = std::min(chunk_, rows_ - row);
    const ChunkProducts& products = rows == chunk_ ? whole_ : *rest_;
    const std::byte* y = arguments.inputs[0] + row * columns_ * SizeOf(dtype_);
    std::byte* dy = gradients_ ? arguments.outputs[1] : nullptr;
    std::byte* dw = gradients_ ? arguments.outputs[2] : nullptr;
    std::byte* logits = arguments.scratch;
    auto* losses = reinterpret_cast<double*>(logits + logits_bytes_);
    const float* bias = has_bias_ ? Bias(arguments) : nullptr;
    auto* dbias = gradients_ && has_bias_ ? Output<float>(arguments, 3) : nullptr;
    std::byte* scratch = logits + logits_bytes_ + losses_bytes_ + bias_bytes_;

    products.logits.Run({.a = y, .b = arguments.inputs[1], .c = logits, .scratch = scratch});
    const auto* labels = reinterpret_cast<const int32_t*>(arguments.inputs[2]) + row;
    const bool backward = dy != nullptr || dw != nullptr || dbias != nullptr;
    ParallelFor(threads_, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) losses[r] = Row(logits, r, bias, labels[r], backward);
    });
    for (int64_t r = 0; r < rows; ++r) total += losses[r];

    if (dy != nullptr) {
      dy += row * columns_ * SizeOf(dtype_);
      products.dy->Run({.a = logits, .b = arguments.inputs[1], .c = dy, .scratch = scratch});
    }
    if (dw != nullptr) {
      const bool add = row > 0 || (arguments.accumulate & 0b100U) != 0;
      products.dw->Run({.a = logits, .b = y, .c = dw, .accumulate = add, .scratch = scratch});
    }
    if (dbias != nullptr) AddBiasGradient(logits, rows, row > 0 || (arguments.accumulate & 0b1000U) != 0, dbias);
  }

  // The loss of row r of the chunk; turns its logits into dlogits.
  double Row(std::byte* logits, int64_t r, const float* bias, int32_t label, bool backward) const {
    auto* row = reinterpret_cast<float*>(logits) + r * vocabulary_;
    if (label == kNotCounted) {
      std::fill_n(row, vocabulary_, 0.0F);
      return 0;
    }
    for (int64_t v = 0; bias != nullptr && v < vocabulary_; ++v) row[v] += bias[v];
    float sum = 0;
    const double loss = CrossEntropyRow(row, vocabulary_, label, &sum);
    if (!backward) return loss;
    CrossEntropyGradientRow(row, vocabulary_, label, sum, dtype_ == DType::kBFloat16);
    if (dlogits_ == DType::kBFloat16) RoundRow(row, nullptr, reinterpret_cast<BFloat16*>(row), vocabulary_);
    return loss;
  }

  // Threads share the columns: the order of rows is everybody's.
  void AddBiasGradient(const std::byte* dlogits, int64_t rows, bool add, float* dbias) const {
    constexpr int64_t kBlock = 256;  // columns whose sums stay in the nearest cache
    ParallelFor(threads_, vocabulary_, std::max(kBlock, GrainRows(rows)), [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t count = std::min(kBlock, end - first);
        float sums[kBlock] = {};
        for (int64_t r = 0; r < rows; ++r) {
          const std::byte* row = dlogits + r * vocabulary_ * 4;
          if (dlogits_ == DType::kBFloat16) {
            const auto* values = reinterpret_cast<const BFloat16*>(row) + first;
            for (int64_t c = 0; c < count; ++c) sums[c] += static_cast<float>(values[c]);
          } else {
            const auto* values = reinterpret_cast<const float*>(row) + first;
            for (int64_t c = 0; c < count; ++c) sums[c] += values[c];
          }
        }
        for (int64_t c = 0; c < count; ++c) Put(dbias[first + c], sums[c], add);
      }
    });
  }

  int threads_;
  DType dtype_;
  DType dlogits_;
  int64_t rows_;
  int64_t columns_;
  int64_t vocabulary_;
  int64_t chunk_;
  bool gradients_;
  bool has_bias_;
  ChunkProducts whole_;
  std::optional<ChunkProducts> rest_;
  int64_t logits_bytes_ = 0;
  int64_t losses_bytes_ = 0;
  int64_t bias_bytes_ = 0;
};

KernelOr Make(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return std::make_unique<LinearCrossEntropy>(spec, options.threads);
}

const bool registered = RegisterKernel("linear_cross_entropy", KernelKind::kCpu, Make);

}  // namespace
}  // namespace reprise
