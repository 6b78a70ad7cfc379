// attention and its gradient: heads of sequences over the threads.
#include <algorithm>

#include "base/check.h"
#include "runtime/tensor/cpu/attention_head.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/kernel.h"

namespace reprise {
namespace {

AttentionShape ShapeOf(const KernelSpec& spec) {
  AttentionShape shape;
  shape.heads = spec.attributes.Int("heads");
  shape.length = spec.attributes.Int("sequence_length");
  shape.size = spec.inputs[0].columns() / 3 / shape.heads;
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
        threads_(threads),
        heads_(spec.inputs[0].rows() / shape_.length * shape_.heads),
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

  // Bytes from the first row to those of sequence index / heads, for rows of `columns`.
  int64_t Offset(int64_t index, int64_t columns) const {
    return index / shape_.heads * shape_.length * columns * (shape_.bfloat16 ? 2 : 4);
  }

  AttentionHead Head(const KernelArguments& arguments, int64_t index, float* scratch) const {
    AttentionHead head;
    head.head = index % shape_.heads;
    head.qkv = arguments.inputs[0] + Offset(index, 3 * shape_.columns());
    head.scratch = scratch;
    if (shape_.dropout > 0) {
      head.key = MakeRandomKey(arguments.step->seed, arguments.step->step, OperationNumber(arguments.block, salt_));
      head.sequence = arguments.first_sequence + index / shape_.heads;
    }
    return head;
  }

  AttentionShape shape_;
  int threads_;
  int64_t heads_;  // of all sequences

 private:
  int64_t salt_;
  int64_t scratch_floats_;
};

class Attention : public AttentionKernel {
 public:
  Attention(const KernelSpec& spec, int threads)
      : AttentionKernel(spec, threads, AttentionForwardScratch(ShapeOf(spec))), parts_(Parts(heads_, threads)) {
    parts_ = std::min(parts_, shape_.tiles());
  }

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK(arguments.accumulate == 0) << "attention: outputs are assigned, never added to";
    ForEachTask(arguments, heads_ * parts_, [&](int64_t task, float* scratch) {
      const int64_t index = task / parts_;
      std::byte* o = arguments.outputs[0];
      auto* lse = reinterpret_cast<float*>(arguments.outputs[1]);
      AttentionForward(shape_, Head(arguments, index, scratch), task % parts_, parts_,
                       o == nullptr ? nullptr : o + Offset(index, shape_.columns()),
                       lse == nullptr ? nullptr : lse + index * shape_.length);
    });
  }

 private:
  // Query tiles of a head are split where heads alone would leave threads idle; each part reads all keys again.
  static int64_t Parts(int64_t heads, int64_t threads) {
    return heads % threads == 0 ? 1 : (4 * threads + heads - 1) / heads;
  }

  int64_t parts_;
};

class AttentionGradient : public AttentionKernel {
 public:
  AttentionGradient(const KernelSpec& spec, int threads)
      : AttentionKernel(spec, threads, AttentionBackwardScratch(ShapeOf(spec))) {}

  void Run(const KernelArguments& arguments) const override {
    REPRISE_CHECK(arguments.accumulate == 0) << "attention_gradient: dqkv is assigned, never added to";
    if (arguments.outputs[0] == nullptr) return;
    ForEachTask(arguments, heads_, [&](int64_t index, float* scratch) {
      AttentionHead head = Head(arguments, index, scratch);
      head.o = arguments.inputs[1] + Offset(index, shape_.columns());
      head.lse = reinterpret_cast<const float*>(arguments.inputs[2]) + index * shape_.length;
      head.d_o = arguments.inputs[3] + Offset(index, shape_.columns());
      AttentionBackward(shape_, head, arguments.outputs[0] + Offset(index, 3 * shape_.columns()));
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
