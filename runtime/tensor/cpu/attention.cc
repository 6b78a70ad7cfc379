// attention and its gradient: heads of sequences over the threads.
#include <algorithm>

#include "base/check.h"
#include "runtime/tensor/cpu/attention_head.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/kernel.h"

namespace reprise {
namespace {

// Where q, k or v stands among the inputs, and its gradient among the outputs.
struct Part {
  int tensor;
  int64_t columns;  // of that tensor
  int64_t first;    // column of its head 0
};

struct Parts {
  explicit Parts(const KernelSpec& spec) {
    const int64_t columns = spec.inputs[0].columns();
    documents = spec.attributes.Has("documents");
    if (!spec.attributes.Has("key_value_heads")) {
      q = {0, columns, 0};
      k = {0, columns, columns / 3};
      v = {0, columns, columns / 3 * 2};
      tensors = 1;
    } else {
      q = {0, columns, 0};
      k = {1, spec.inputs[1].columns(), 0};
      v = {2, spec.inputs[2].columns(), 0};
      tensors = 3;
    }
  }

  // The first input behind q, k, v and the document starts.
  int Rest() const { return tensors + (documents ? 1 : 0); }

  Part q, k, v;
  int tensors;
  bool documents;
};

AttentionShape ShapeOf(const KernelSpec& spec) {
  const bool packed = Parts(spec).tensors == 1;
  AttentionShape shape;
  shape.heads = spec.attributes.Int("heads");
  shape.key_value_heads = packed ? shape.heads : spec.attributes.Int("key_value_heads");
  shape.length = spec.attributes.Int("sequence_length");
  shape.size = spec.inputs[0].columns() / shape.heads / (packed ? 3 : 1);
  shape.causal = spec.attributes.Int("causal") != 0;
  shape.bfloat16 = spec.inputs[0].dtype == DType::kBFloat16;
  shape.dropout = spec.attributes.Real("dropout");
  return shape;
}

// What both directions share: one scratch a thread, and which head of which sequence a task is.
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const KernelSpec& spec, int threads, int64_t scratch_floats)
      : shape_(ShapeOf(spec)),
        parts_(spec),
        threads_(threads),
        sequences_(spec.inputs[0].rows() / shape_.length),
        salt_(spec.attributes.Int("salt")),
        scratch_floats_((scratch_floats + 15) / 16 * 16) {}

  int64_t scratch_bytes() const override { return threads_ * scratch_floats_ * 4; }

 protected:
  // Calls function(task, scratch) for [0, tasks), in turn over the threads.
  template <typename Function>
  void ForEachTask(const KernelArguments& arguments, int64_t tasks, const Function& function) const {
    ParallelFor(threads_, threads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        float* scratch = reinterpret_cast<float*>(arguments.scratch) + slot * scratch_floats_;
        for (int64_t task = slot; task < tasks; task += threads_) function(task, scratch);
      }
    });
  }

  // Bytes to the first element of a head of a sequence.
  int64_t Offset(const Part& part, int64_t sequence, int64_t head) const {
    return (sequence * shape_.length * part.columns + part.first + head * shape_.size) * (shape_.bfloat16 ? 2 : 4);
  }
  HeadInput In(const KernelArguments& arguments, const Part& part, int64_t sequence, int64_t head) const {
    return {Input<std::byte>(arguments, part.tensor) + Offset(part, sequence, head), part.columns};
  }
  HeadOutput Out(const KernelArguments& arguments, const Part& part, int64_t sequence, int64_t head) const {
    auto* tensor = Output<std::byte>(arguments, part.tensor);
    return {tensor == nullptr ? nullptr : tensor + Offset(part, sequence, head), part.columns};
  }
  // A tensor that has a query head's columns for each head, as o.
  Part Queries(int tensor) const { return {tensor, shape_.heads * shape_.size, 0}; }
  // The head's first value in lse.
  int64_t LseOffset(int64_t sequence, int64_t head) const { return (sequence * shape_.heads + head) * shape_.length; }

  AttentionHead Head(const KernelArguments& arguments, int64_t sequence, int64_t query_head, float* scratch) const {
    const int64_t key_value_head = query_head / shape_.group();
    AttentionHead head;
    head.head = query_head;
    head.q = In(arguments, parts_.q, sequence, query_head);
    head.k = In(arguments, parts_.k, sequence, key_value_head);
    head.v = In(arguments, parts_.v, sequence, key_value_head);
    head.scratch = scratch;
    if (parts_.documents) head.starts = Input<int32_t>(arguments, parts_.tensors) + sequence * shape_.length;
    if (shape_.dropout > 0) {
      head.key = MakeRandomKey(arguments.step->seed, arguments.step->step, OperationNumber(arguments.block, salt_));
      head.sequence = arguments.first_sequence + sequence;
    }
    return head;
  }

  AttentionShape shape_;
  Parts parts_;
  int threads_;
  int64_t sequences_;

 private:
  int64_t salt_;
  int64_t scratch_floats_;
};

class Attention : public AttentionKernel {
 public:
  Attention(const KernelSpec& spec, int threads)
      : AttentionKernel(spec, threads, AttentionForwardScratch(ShapeOf(spec))),
        heads_(sequences_ * shape_.heads),
        splits_(std::min(Splits(heads_, threads), shape_.tiles())) {}

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK(arguments.accumulate == 0) << "attention: outputs are assigned, never added to";
    auto* lse = Output<float>(arguments, 1);
    ForEachTask(arguments, heads_ * splits_, [&](int64_t task, float* scratch) {
      const int64_t sequence = task / splits_ / shape_.heads;
      const int64_t head = task / splits_ % shape_.heads;
      AttentionForward(shape_, Head(arguments, sequence, head, scratch), task % splits_, splits_,
                       Out(arguments, Queries(0), sequence, head),
                       lse == nullptr ? nullptr : lse + LseOffset(sequence, head));
    });
  }

 private:
  // Query tiles of a head are split where heads alone would leave threads idle; each split reads all keys again.
  static int64_t Splits(int64_t heads, int64_t threads) {
    return heads % threads == 0 ? 1 : (4 * threads + heads - 1) / heads;
  }

  int64_t heads_;  // of all sequences
  int64_t splits_;
};

// A task is a key-value head with all query heads that read it: no two threads add to one dk or dv.
class AttentionGradient : public AttentionKernel {
 public:
  AttentionGradient(const KernelSpec& spec, int threads)
      : AttentionKernel(spec, threads, AttentionBackwardScratch(ShapeOf(spec))) {}

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK(arguments.accumulate == 0) << "attention_gradient: gradients are assigned, never added to";
    const auto* lse = Input<float>(arguments, parts_.Rest() + 1);
    ForEachTask(arguments, sequences_ * shape_.key_value_heads, [&](int64_t task, float* scratch) {
      const int64_t sequence = task / shape_.key_value_heads;
      const int64_t key_value_head = task % shape_.key_value_heads;
      const int64_t first = key_value_head * shape_.group();
      AttentionHead head = Head(arguments, sequence, first, scratch);
      head.o = In(arguments, Queries(parts_.Rest()), sequence, first);
      head.d_o = In(arguments, Queries(parts_.Rest() + 2), sequence, first);
      head.lse = lse + LseOffset(sequence, first);
      AttentionBackward(shape_, head, Out(arguments, parts_.q, sequence, first),
                        Out(arguments, parts_.k, sequence, key_value_head),
                        Out(arguments, parts_.v, sequence, key_value_head));
    });
  }
};

template <typename AnyKernel>
KernelOr Make(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return std::make_unique<AnyKernel>(spec, options.threads);
}

const bool registered = RegisterKernel("attention", KernelKind::kCpu, Make<Attention>) &&
                        RegisterKernel("attention_gradient", KernelKind::kCpu, Make<AttentionGradient>);

}  // namespace
}  // namespace reprise
