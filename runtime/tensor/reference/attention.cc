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
  bool packed;  // q, k and v side by side in one tensor, or three tensors
  int64_t heads, key_value_heads, length, sequences, size;
  bool causal;
  double dropout;
  bool documents;

  explicit Geometry(const KernelSpec& spec) {
    packed = !spec.attributes.Has("key_value_heads");
    documents = spec.attributes.Has("documents");
    heads = spec.attributes.Int("heads");
    key_value_heads = packed ? heads : spec.attributes.Int("key_value_heads");
    length = spec.attributes.Int("sequence_length");
    size = spec.inputs[0].columns() / heads / (packed ? 3 : 1);
    sequences = spec.inputs[0].rows() / length;
    causal = spec.attributes.Int("causal") != 0;
    dropout = spec.attributes.Real("dropout");
  }
  // Input that part 0 (q), 1 (k) or 2 (v) is in, and output that its gradient is in.
  int TensorOf(int part) const { return packed ? 0 : part; }
  // Of the inputs behind q, k and v.
  int Rest(int index) const { return (packed ? 1 : 3) + (documents ? 1 : 0) + index; }
  // Element of a part in its tensor; `row` is among all sequences, `head` a query head.
  int64_t Index(int part, int64_t row, int64_t head, int64_t c) const {
    if (packed) return ((row * 3 + part) * heads + head) * size + c;
    if (part == 0) return (row * heads + head) * size + c;
    return (row * key_value_heads + head / (heads / key_value_heads)) * size + c;
  }
  // Keys that query i of a sequence sees: [First, Keys).
  int64_t First(const KernelArguments& arguments, int64_t sequence, int64_t i) const {
    return documents ? Input<int32_t>(arguments, packed ? 1 : 3)[sequence * length + i] : 0;
  }
  int64_t Keys(int64_t i) const { return causal ? i + 1 : length; }
};

// One query's row of attention: what it sees of one head of one sequence.
template <typename T>
class Row {
 public:
  using W = Wide<T>;

  Row(const KernelSpec& spec, const KernelArguments& arguments, int64_t sequence, int64_t head, int64_t i)
      : g_(spec), sequence_(sequence), head_(head), i_(i), arguments_(arguments) {
    key_ = MakeRandomKey(arguments.step == nullptr ? 0 : arguments.step->seed,
                         arguments.step == nullptr ? 0 : arguments.step->step,
                         OperationNumber(arguments.block, spec.attributes.Int("salt")));
  }

  // Element of a part (0: q, 1: k, 2: v) that this head reads, in row `row` of the sequence.
  int64_t Index(int part, int64_t row, int64_t c) const {
    return g_.Index(part, sequence_ * g_.length + row, head_, c);
  }
  W Qkv(int part, int64_t row, int64_t c) const {
    return Widened(Input<T>(arguments_, g_.TensorOf(part))[Index(part, row, c)]);
  }
  int64_t OutputIndex(int64_t c) const { return ((sequence_ * g_.length + i_) * g_.heads + head_) * g_.size + c; }
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
      const auto first = static_cast<size_t>(g.First(arguments, b, i));
      const auto keys = static_cast<size_t>(g.Keys(i));
      Wide<T> highest = -std::numeric_limits<Wide<T>>::infinity();
      for (size_t j = first; j < keys; ++j) {
        p[j] = row.Score(static_cast<int64_t>(j));
        highest = std::max(highest, p[j]);
      }
      Wide<T> sum = 0;
      for (size_t j = first; j < keys; ++j) sum += p[j] = std::exp(p[j] - highest);
      if (lse != nullptr) lse[row.LseIndex()] = highest + std::log(sum);
      if (o == nullptr) return;
      for (int64_t c = 0; c < g.size; ++c) {
        Wide<T> value = 0;
        for (size_t j = first; j < keys; ++j) {
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
    const T* o = Input<T>(arguments, g.Rest(0));
    const auto* lse = Input<Wide<T>>(arguments, g.Rest(1));
    const T* d_o = Input<T>(arguments, g.Rest(2));
    std::vector<std::vector<Wide<T>>> sums;
    for (const TensorType& type : spec.outputs) sums.emplace_back(static_cast<size_t>(type.elements()));
    ForEachRow(g, [&](int64_t b, int64_t h, int64_t i) {
      const Row<T> row(spec, arguments, b, h, i);
      const auto gradient = [&](int64_t c) { return Widened(d_o[row.OutputIndex(c)]); };
      const auto sum = [&](int part, int64_t r, int64_t c) -> Wide<T>& {
        return sums[static_cast<size_t>(g.TensorOf(part))][static_cast<size_t>(row.Index(part, r, c))];
      };
      Wide<T> delta = 0;
      for (int64_t c = 0; c < g.size; ++c) delta += gradient(c) * Widened(o[row.OutputIndex(c)]);
      for (int64_t j = g.First(arguments, b, i); j < g.Keys(i); ++j) {
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
    for (size_t t = 0; t < sums.size(); ++t) {
      T* gradients = Output<T>(arguments, static_cast<int>(t));
      for (size_t k = 0; gradients != nullptr && k < sums[t].size(); ++k) gradients[k] = Rounded<T>(sums[t][k]);
    }
  }
};

const bool registered =
    RegisterReference<Attention>("attention") && RegisterReference<AttentionGradient>("attention_gradient");

}  // namespace
}  // namespace reprise
