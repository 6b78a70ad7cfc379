// Tensor: what a block's forward computes with while it is traced. It has a type and no data; each function below
// appends an operation to the graph that is being traced. Part of the public API.
//
//   Tensor Forward(Tensor x) const { return x + Dropout(Linear(x, weight, bias), 0.1); }
//
// Ownership: a Tensor points into the Trace that made it and is used only while that Trace lives. Types that do not fit
// are a broken invariant; the check names the operation.
#ifndef REPRISE_RUNTIME_GRAPH_TENSOR_H_
#define REPRISE_RUNTIME_GRAPH_TENSOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/tensor/types.h"

namespace reprise {

class Tensor;

// One tracing of one block.
struct Trace {
  Graph graph;
  bool training = true;   // false: no dropout, and the loss makes no gradients
  int64_t next_salt = 1;  // numbers the operations that draw random bits
  // Behind every Linear: its input, weight and output; what it returns stands for the output. Empty: the output does.
  std::function<Tensor(Tensor x, Tensor weight, Tensor y)> behind_linear = nullptr;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Trace* trace, ValueId value) : trace_(trace), value_(value) {}

  const TensorType& type() const { return trace_->graph.type(value_); }
  int64_t dimension(int i) const { return type().shape[static_cast<size_t>(i)]; }
  ValueId value() const { return value_; }
  Trace* trace() const { return trace_; }

 private:
  Trace* trace_ = nullptr;
  ValueId value_ = kNoValue;
};

// For operations of one's own: appends any registered operation.
std::vector<Tensor> Apply(const std::string& operation, const std::vector<Tensor>& inputs, Attributes attributes = {});

// Shapes: N rows (sequences x tokens), C and M features, V vocabulary, P positions.
Tensor operator+(Tensor a, Tensor b);                                       // equal types
Tensor Scale(Tensor x, double factor);                                      // x times factor
Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table,  // i32[N], [V,C], [P,C] -> [N,C]
                 int64_t sequence_length);
Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table, Tensor positions,  // i32[N], below T
                 int64_t sequence_length);
Tensor Embedding(Tensor tokens, Tensor token_table, int64_t sequence_length);  // i32[N], [V,C] -> [N,C]
Tensor LayerNorm(Tensor x, Tensor gain, Tensor bias, double epsilon);          // [N,C], [C], [C] -> [N,C]
Tensor RmsNorm(Tensor x, Tensor gain, double epsilon);                         // [N,C], [C] -> [N,C], as Llama does it

enum class WeightLayout : uint8_t { kInOut, kOutIn };  // [C,M] as GPT-2 stores it; [M,C]
Tensor Linear(Tensor x, Tensor weight, Tensor bias, WeightLayout layout = WeightLayout::kInOut);  // [N,C] -> [N,M]
Tensor Linear(Tensor x, Tensor weight, WeightLayout layout = WeightLayout::kInOut);
Tensor Gelu(Tensor x);                                        // the tanh form ("gelu_new")
Tensor GeluExact(Tensor x);                                   // x (1 + erf(x / sqrt(2))) / 2 ("gelu")
Tensor SiluMultiply(Tensor gate, Tensor up);                  // [N,F], [N,F] -> [N,F]: silu(gate) * up
Tensor Dropout(Tensor x, double p, int64_t sequence_length);  // x itself when p = 0 or not training

enum class RotaryScaling : uint8_t { kNone, kLlama3 };

struct RotaryOptions {
  int64_t heads = 1;
  int64_t sequence_length = 0;
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::kNone;  // kLlama3 reads what follows, config.json's rope_scaling
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int64_t original_length = 8192;
};
// Rotary position embedding of every head, first and second half of a head together, as Llama has it: [N,C] -> [N,C].
// The position of row r is r % sequence_length, or positions[r] (i32[N], each less than sequence_length).
Tensor Rotary(Tensor x, const RotaryOptions& options);
Tensor Rotary(Tensor x, Tensor positions, const RotaryOptions& options);

struct AttentionOptions {
  int64_t heads = 1;
  int64_t sequence_length = 0;
  bool causal = true;
  double dropout = 0;
  int64_t key_value_heads = 0;  // of k and v apart, divides `heads`; 0: as many
  // i32[N]: the row of its sequence at which each row's document begins; a row sees no earlier one. Empty: all.
  Tensor document_starts = {};
};
Tensor Attention(Tensor query_key_value, const AttentionOptions& options);  // [N,3C] -> [N,C]
// Grouped queries: query head h reads key-value head h / (heads / key_value_heads). [N,H*D], [N,K*D] twice -> [N,H*D]
Tensor Attention(Tensor query, Tensor key, Tensor value, const AttentionOptions& options);

// Sum over rows whose label is not -100 of -log softmax(x · weight^T)[label]; never holds N x V. -> f64[1]
Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor labels);               // [N,C], [V,C], i32[N]
Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor bias, Tensor labels);  // ... of x · weight^T + bias[V]

struct ImageOptions {
  int64_t channels = 3;
  int64_t size = 224;  // pixels of a side
  int64_t patch = 16;  // likewise; divides the size
};
// The patches of each image, row by row, as a convolution with steps of a whole patch sees them; in `dtype`. No
// gradient flows to pixels. f32[B, channels*size*size] -> [B * (size/patch)^2, channels*patch*patch]
Tensor ImagePatches(Tensor pixels, const ImageOptions& options, DType dtype);
// Puts `row` before each sequence, and adds the table to all of it: [B*(T-1),C], [1,C], [T,C] -> [B*T,C].
Tensor PrependRow(Tensor x, Tensor row, Tensor table);
Tensor FirstRow(Tensor x, int64_t sequence_length);  // of each sequence: [B*T,C] -> [B,C]

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_TENSOR_H_
