// Block and Model: how a model is declared. Part of the public API. See docs and models/gpt2.h for a whole one.
//
//   class Mlp : public Module {
//    public:
//     Mlp(Module& parent, int64_t width)
//         : Module(parent, "mlp"), weight_(*this, "c_fc.weight", {width, 4 * width}, Initializer::Normal(0.02)) {}
//     Tensor Forward(BlockTrace& trace, Tensor x) const { return Linear(x, trace.Get(weight_)); }
//    private:
//     Parameter weight_;
//   };
//
// A model is an ordered chain of blocks. Nothing here takes memory for parameters: a Parameter is a name, a shape and
// an initialiser, and becomes a Tensor where a forward is traced. Blocks and models are not changed after they are
// built.
#ifndef REPRISE_RUNTIME_MODEL_BLOCK_H_
#define REPRISE_RUNTIME_MODEL_BLOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/tensor.h"
#include "runtime/tensor/types.h"

namespace reprise {

// How a parameter starts when there is no file: the same values for any number of ranks.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant; the standard deviation (mean 0); the bound b of [-b, b)

  static Initializer Constant(double value) { return {Kind::kConstant, value}; }
  static Initializer Normal(double standard_deviation) { return {Kind::kNormal, standard_deviation}; }
  static Initializer Uniform(double bound) { return {Kind::kUniform, bound}; }
};

class LowRankAdapter;
class Module;
class Parameter;

// Where a block's forward is traced: turns parameters and the batch into tensors.
class BlockTrace {
 public:
  BlockTrace(Trace* trace, DType dtype, int64_t sequences, int64_t sequence_length)
      : trace_(trace), dtype_(dtype), sequences_(sequences), sequence_length_(sequence_length) {}

  int64_t sequences() const { return sequences_; }              // B, of the micro-batch
  int64_t sequence_length() const { return sequence_length_; }  // T
  DType dtype() const { return dtype_; }                        // of activations
  // Of the batch. All blocks of a model ask for one kind with one type.
  Tensor Tokens();                  // i32[B * T]
  Tensor Labels();                  // i32[B * T], -100: not counted
  Tensor SequenceLabels();          // i32[B] in their place: one for each sequence
  Tensor Pixels(int64_t elements);  // f32[B, elements]: channels x height x width of each image
  Tensor Positions();               // i32[B * T]: of each row in its document
  Tensor DocumentStarts();          // i32[B * T]: the row of the sequence at which each row's document begins
  Tensor Boundary(int32_t index, const TensorType& type);
  Tensor Get(const Parameter& parameter);
  // The same elements in another shape, as a convolution's weight is a matrix for its patches. A block asks for a
  // parameter in one shape only.
  Tensor Get(const Parameter& parameter, const Shape& shape);
  // In the order of their first use.
  const std::vector<const Parameter*>& parameters() const { return parameters_; }

 private:
  Tensor Data(DataKind kind, const TensorType& type);
  Tensor RowData(DataKind kind) { return Data(kind, {DType::kInt32, {sequences_ * sequence_length_}}); }

  Trace* trace_;
  DType dtype_;
  int64_t sequences_;
  int64_t sequence_length_;
  std::vector<const Parameter*> parameters_;
};

// A learned tensor. Lives in its module, which must outlive the traces that use it; to tie weights, let two blocks hold
// a pointer to one Parameter.
class Parameter {
 public:
  Parameter(Module& owner, const std::string& name, Shape shape, Initializer initializer);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // whole: "h.0.attn.c_attn.weight"
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return ElementCount(shape_); }
  const Initializer& initializer() const { return initializer_; }
  // Orders parameters as they are declared, whatever order a forward uses them in (that of a call's arguments is open).
  int64_t serial() const { return serial_; }

 private:
  std::string name_;
  Shape shape_;
  Initializer initializer_;
  int64_t serial_;
};

// A named group of parameters and modules. Prefixes the names of what it holds.
class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module& parent, const std::string& name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }  // "" for one without a prefix

 private:
  std::string name_;
};

class Block : public Module {
 public:
  using Module::Module;
  // From the boundary before it to the boundary behind it; the first block's is empty, the last block returns the loss.
  virtual std::vector<Tensor> Forward(BlockTrace& trace, const std::vector<Tensor>& boundary) const = 0;
};

// What a model that reads images reads: square ones, and the class of each as its label.
struct ImageInput {
  int64_t channels = 3;
  int64_t size = 224;   // pixels of a side
  int64_t patch = 1;    // likewise: sizes are multiples of it
  int64_t classes = 2;  // labels must be below
};

// The chain. blocks.front() is the embedding, blocks.back() the head with the loss; those between are layers, to which
// checkpointing policies apply. Parameters of the first and the last block form the root unit, each layer's its own.
struct Model {
  std::string name = {};
  std::vector<std::shared_ptr<const Block>> blocks = {};
  int64_t vocabulary = 0;        // ids in the data must be below; 0: no tokens
  int64_t maximum_sequence = 0;  // 0: any
  int64_t sequence_length = 0;   // rows of a sequence where the model has one length only; 0: the job says
  std::optional<ImageInput> images = std::nullopt;  // in place of tokens
  // Which parameters are trained: the others are frozen, without gradient and optimizer state. Empty: all. At least
  // one.
  std::function<bool(const Parameter&)> trained = nullptr;
  // By the weight of the product that each adds to (low_rank.h).
  std::map<const Parameter*, std::shared_ptr<const LowRankAdapter>> adapters = {};

  int64_t layer_count() const { return static_cast<int64_t>(blocks.size()) - 2; }
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_BLOCK_H_
