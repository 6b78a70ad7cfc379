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
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/tensor/types.h"

namespace reprise {

// One tracing of one block.
struct Trace {
  Graph graph;
  bool training = true;   // false: no dropout, and the loss makes no gradients
  int64_t next_salt = 1;  // numbers the operations that draw random bits
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
Tensor Embedding(Tensor tokens, Tensor token_table, Tensor position_table,  // i32[N], [V,C], [P,C] -> [N,C]
                 int64_t sequence_length);
Tensor Embedding(Tensor tokens, Tensor token_table, int64_t sequence_length);  // i32[N], [V,C] -> [N,C]
Tensor LayerNorm(Tensor x, Tensor gain, Tensor bias, double epsilon);          // [N,C], [C], [C] -> [N,C]

enum class WeightLayout : uint8_t { kInOut, kOutIn };  // [C,M] as GPT-2 stores it; [M,C]
Tensor Linear(Tensor x, Tensor weight, Tensor bias, WeightLayout layout = WeightLayout::kInOut);  // [N,C] -> [N,M]
Tensor Linear(Tensor x, Tensor weight, WeightLayout layout = WeightLayout::kInOut);
Tensor Gelu(Tensor x);                                        // the tanh form ("gelu_new")
Tensor Dropout(Tensor x, double p, int64_t sequence_length);  // x itself when p = 0 or not training

struct AttentionOptions {
  int64_t heads = 1;
  int64_t sequence_length = 0;
  bool causal = true;
  double dropout = 0;
};
Tensor Attention(Tensor query_key_value, const AttentionOptions& options);  // [N,3C] -> [N,C]

// Sum over rows whose label is not -100 of -log softmax(x · weight^T)[label]; never holds N x V. -> f64[1]
Tensor LinearCrossEntropy(Tensor x, Tensor weight, Tensor labels);  // [N,C], [V,C], i32[N]

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_TENSOR_H_
