// Plain loops for attention and its gradient: one row of scores at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/tensor/access.h"
#include "runtime/tensor/philox.h"

namespace reprise {
namespace {

struct Geometry {
  int64_t heads, length, sequences, size, columns;
  bool causal;
  double dropout;

  explicit Geometry(const KernelSpec& spec) {
    heads = spec.attributes.Int("heads");
    length = spec.attributes.Int("sequence_length");
    columns = spec.inputs[0].columns() / 3;
    size = columns / heads;
    sequences = spec.inputs[0].rows() / length;
    causal = spec.attributes.Int("causal") != 0;
    dropout = spec.attributes.Real("dropout");
  }
  // Keys that query i sees.
  int64_t Keys(int64_t i) const { return causal ? i + 1 : length; }
};

// One query's row of attention: what it sees of one head of one sequence.
template <typename T>
class Row {
 public:
  using W = Wide<T>;

  Row(const KernelSpec& spec, const KernelArguments& arguments, int64_t sequence, int64_t head, int64_t i)
      : g_(spec), sequence_(sequence), head_(head), i_(i), qkv_(Input<T>(arguments, 0)), arguments_(arguments) {
    key_ = MakeRandomKey(arguments.step == nullptr ? 0 : arguments.step->seed,
                         arguments.step == nullptr ? 0 : arguments.step->step,
                         OperationNumber(arguments.block, spec.attributes.Int("salt")));
  }

  // part 0: q, 1: k, 2: v.
  int64_t QkvIndex(int64_t part, int64_t row, int64_t c) const {
    return (sequence_ * g_.length + row) * 3 * g_.columns + part * g_.columns + head_ * g_.size + c;
  }
  W Qkv(int64_t part, int64_t row, int64_t c) const { return Widened(qkv_[QkvIndex(part, row, c)]); }
  int64_t OutputIndex(int64_t c) const { return (sequence_ * g_.length + i_) * g_.columns + head_ * g_.size + c; }
  int64_t LseIndex() const { return (sequence_ * g_.heads + head_) * g_.length + i_; }

  W Scale() const { return 1 / std::sqrt(static_cast<W>(g_.size)); }
  W Score(int64_t j) const {
    W sum = 0;
    for (int64_t c = 0; c < g_.size; ++c) sum += Qkv(0, i_, c) * Qkv(1, j, c);
    return sum * Scale();
  }

  // What dropout multiplies the probability of key j with: 0 or 1 / (1 - p).
  W Kept(int64_t j) const {
    if (g_.dropout == 0) return 1;
    const int64_t element = (head_ * g_.length + i_) * ((g_.length + 3) / 4 * 4) + j;
    const auto bits = RandomBits(key_, arguments_.first_sequence + sequence_, element / 4);
    const bool dropped = bits[static_cast<size_t>(element % 4)] < DropThreshold(g_.dropout);
    return dropped ? 0 : static_cast<W>(1 / (1 - g_.dropout));
  }

 private:
  Geometry g_;
  int64_t sequence_, head_, i_;
  const T* qkv_;
  const KernelArguments& arguments_;
  RandomKey key_;
};

template <typename Function>
void ForEachRow(const Geometry& g, const Function& function) {
  for (int64_t b = 0; b < g.sequences; ++b) {
    for (int64_t h = 0; h < g.heads; ++h) {
      for (int64_t i = 0; i < g.length; ++i) function(b, h, i);
    }
  }
}

struct Attention {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const Geometry g(spec);
    T* o = Output<T>(arguments, 0);
    auto* lse = Output<Wide<T>>(arguments, 1);
    std::vector<Wide<T>> p(static_cast<size_t>(g.length));
    ForEachRow(g, [&](int64_t b, int64_t h, int64_t i) {
      const Row<T> row(spec, arguments, b, h, i);
      const auto keys = static_cast<size_t>(g.Keys(i));
      Wide<T> highest = -std::numeric_limits<Wide<T>>::infinity();
      for (size_t j = 0; j < keys; ++j) {
        p[j] = row.Score(static_cast<int64_t>(j));
        highest = std::max(highest, p[j]);
      }
      Wide<T> sum = 0;
      for (size_t j = 0; j < keys; ++j) sum += p[j] = std::exp(p[j] - highest);
      if (lse != nullptr) lse[row.LseIndex()] = highest + std::log(sum);
      if (o == nullptr) return;
      for (int64_t c = 0; c < g.size; ++c) {
        Wide<T> value = 0;
        for (size_t j = 0; j < keys; ++j) {
          const auto key = static_cast<int64_t>(j);
          value += p[j] / sum * row.Kept(key) * row.Qkv(2, key, c);
        }
        o[row.OutputIndex(c)] = Rounded<T>(value);
      }
    });
  }
};

struct AttentionGradient {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const Geometry g(spec);
    const T* o = Input<T>(arguments, 1);
    const auto* lse = Input<Wide<T>>(arguments, 2);
    const T* d_o = Input<T>(arguments, 3);
    T* dqkv = Output<T>(arguments, 0);
    if (dqkv == nullptr) return;
    std::vector<Wide<T>> sums(static_cast<size_t>(spec.outputs[0].elements()));
    ForEachRow(g, [&](int64_t b, int64_t h, int64_t i) {
      const Row<T> row(spec, arguments, b, h, i);
      const auto gradient = [&](int64_t c) { return Widened(d_o[row.OutputIndex(c)]); };
      const auto sum = [&](int64_t part, int64_t r, int64_t c) -> Wide<T>& {
        return sums[static_cast<size_t>(row.QkvIndex(part, r, c))];
      };
      Wide<T> delta = 0;
      for (int64_t c = 0; c < g.size; ++c) delta += gradient(c) * Widened(o[row.OutputIndex(c)]);
      for (int64_t j = 0; j < g.Keys(i); ++j) {
        const Wide<T> p = std::exp(row.Score(j) - lse[row.LseIndex()]);
        const Wide<T> kept = row.Kept(j);
        Wide<T> dp = 0;
        for (int64_t c = 0; c < g.size; ++c) dp += gradient(c) * row.Qkv(2, j, c);
        const Wide<T> ds = p * (dp * kept - delta) * row.Scale();
        for (int64_t c = 0; c < g.size; ++c) {
          sum(0, i, c) += ds * row.Qkv(1, j, c);
          sum(1, j, c) += ds * row.Qkv(0, i, c);
          sum(2, j, c) += p * kept * gradient(c);
        }
      }
    });
    for (size_t k = 0; k < sums.size(); ++k) dqkv[k] = Rounded<T>(sums[k]);
  }
};

const bool registered =
    RegisterReference<Attention>("attention") && RegisterReference<AttentionGradient>("attention_gradient");

}  // namespace
}  // namespace reprise
