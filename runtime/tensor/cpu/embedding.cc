#include <algorithm>
#include <cstring>

#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/row_sums.h"

namespace reprise {
namespace {

KernelOr MakeEmbedding(const KernelSpec& spec, const KernelOptions& options) {
  const int64_t rows = spec.inputs[0].elements();
  const int64_t width = spec.inputs[1].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const bool bfloat16 = IsBFloat16(spec);
  return MakeFastKernel(
      spec, [rows, width, length, bfloat16, has_positions = spec.inputs.size() >= 3, has_at = spec.inputs.size() == 4,
             threads = options.threads](const KernelArguments& arguments) {
        if (arguments.outputs[0] == nullptr) return;
        const auto* tokens = Input<int32_t>(arguments, 0);
        const auto* at = has_at ? Input<int32_t>(arguments, 3) : nullptr;
        const int64_t row_bytes = width * (bfloat16 ? 2 : 4);
        ParallelFor(threads, rows, GrainRows(width), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const std::byte* token = arguments.inputs[1] + tokens[i] * row_bytes;
            std::byte* x = arguments.outputs[0] + i * row_bytes;
            if (has_positions) {
              AddRows(bfloat16, token, arguments.inputs[2] + (has_at ? at[i] : i % length) * row_bytes, x, width);
            } else {
              std::memcpy(x, token, static_cast<size_t>(row_bytes));
            }
          }
        });
      });
}

// Rows of dx are added up by token and by position. Threads share the columns, not the rows: text has few frequent
// tokens, and so every thread has the same work.
class EmbeddingGradient : public Kernel {
 public:
  EmbeddingGradient(const KernelSpec& spec, int threads)
      : rows_(spec.inputs[0].elements()),
        width_(spec.inputs[1].columns()),
        length_(spec.attributes.Int("sequence_length")),
        vocabulary_(spec.attributes.Int("vocabulary")),
        positions_(spec.attributes.Int("positions")),
        has_at_(spec.inputs.size() == 3),
        bfloat16_(IsBFloat16(spec)),
        threads_(threads) {}

  // starts: the first place of each token (then of each position), and one more; then the rows in their order.
  int64_t scratch_bytes() const override {
    const int64_t kinds = has_at_ ? std::max(vocabulary_, positions_) : vocabulary_;
    return (kinds + 2 + rows_) * static_cast<int64_t>(sizeof(int32_t));
  }

  void Run(const KernelArguments& arguments) const override {
    if (float* table = Output<float>(arguments, 0); table != nullptr) {
      SumSorted(arguments, Input<int32_t>(arguments, 0), vocabulary_, table, Accumulates(arguments, 0));
    }
    if (float* table = positions_ > 0 ? Output<float>(arguments, 1) : nullptr; table != nullptr) {
      if (has_at_) {
        SumSorted(arguments, Input<int32_t>(arguments, 2), positions_, table, Accumulates(arguments, 1));
        return;
      }
      SumRows(arguments, table, positions_, Accumulates(arguments, 1), [this](int64_t position, auto add) {
        if (position >= length_) return;
        for (int64_t i = position; i < rows_; i += length_) add(i);
      });
    }
  }

 private:
  // table[v] = [table[v] +] the sum of the rows that are of kind v, in their order.
  void SumSorted(const KernelArguments& arguments, const int32_t* kinds, int64_t count, float* table,
                 bool accumulate) const {
    auto* starts = reinterpret_cast<int32_t*>(arguments.scratch);
    int32_t* order = starts + count + 2;
    SortRows(kinds, count, starts, order);
    SumRows(arguments, table, count, accumulate, [=](int64_t kind, auto add) {
      for (int32_t i = starts[kind]; i < starts[kind + 1]; ++i) add(order[i]);
    });
  }

  // A counting sort: it keeps the order of rows of one kind.
  void SortRows(const int32_t* kinds, int64_t count, int32_t* starts, int32_t* order) const {
    std::fill_n(starts, count + 2, 0);
    for (int64_t i = 0; i < rows_; ++i) ++starts[kinds[i] + 2];
    for (int64_t v = 2; v < count + 2; ++v) starts[v] += starts[v - 1];
    for (int64_t i = 0; i < rows_; ++i) order[starts[kinds[i] + 1]++] = static_cast<int32_t>(i);
  }

  // table[v] = [table[v] +] the sum of the rows for which each(v, add) calls add.
  template <typename Each>
  void SumRows(const KernelArguments& arguments, float* table, int64_t table_rows, bool accumulate,
               const Each& each) const {
    constexpr int64_t kBlock = 512;  // columns whose sums stay in the nearest cache
    constexpr int64_t kLine = 16;    // floats of a cache line
    ParallelFor(threads_, width_, kLine, [&](int64_t begin, int64_t end) {
      for (int64_t v = 0; v < table_rows; ++v) {
        for (int64_t first = begin; first < end; first += kBlock) {
          const int64_t count = std::min(kBlock, end - first);
          float sums[kBlock];
          bool any = false;
          each(v, [&](int64_t row) {
            if (!any) std::fill_n(sums, count, 0.0F);
            any = true;
            AddToSums(bfloat16_, sums, arguments.inputs[1] + (row * width_ + first) * (bfloat16_ ? 2 : 4), count);
          });
          Finish(table + v * width_ + first, any ? sums : nullptr, count, accumulate);
        }
      }
    });
  }

  static void Finish(float* place, const float* sums, int64_t count, bool accumulate) {
    if (sums == nullptr) {
      if (!accumulate) std::fill_n(place, count, 0.0F);
    } else if (accumulate) {
      for (int64_t c = 0; c < count; ++c) place[c] += sums[c];
    } else {
      std::copy_n(sums, count, place);
    }
  }

  int64_t rows_;
  int64_t width_;
  int64_t length_;
  int64_t vocabulary_;
  int64_t positions_;
  bool has_at_;
  bool bfloat16_;
  int threads_;
};

KernelOr MakeEmbeddingGradient(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return std::make_unique<EmbeddingGradient>(spec, options.threads);
}

[[maybe_unused]] const bool registered = RegisterKernel("embedding", KernelKind::kCpu, MakeEmbedding) &&
                                         RegisterKernel("embedding_gradient", KernelKind::kCpu, MakeEmbeddingGradient);

}  // namespace
}  // namespace reprise
