#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/tensor/cpu/dropout.cc"
#include "runtime/tensor/cpu/targets.h"
// The order matters: foreach_target includes this file once for each target.
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/tensor/cpu/dropout.h"
#include "runtime/tensor/cpu/fast_kernel.h"
#include "runtime/tensor/cpu/parallel.h"
#include "runtime/tensor/cpu/philox-inl.h"
#include "runtime/tensor/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {
namespace {

template <typename T, typename Lanes>
HWY_INLINE void DropVector(const DropoutTask& task, hn::Vec<WordTag> words, int64_t i, Lanes lanes) {
  const auto drop = hn::RebindMask(kFloats, hn::Lt(words, hn::Set(WordTag(), task.threshold)));
  const FloatVector scaled =
      hn::Mul(LoadVector(static_cast<const T*>(task.x) + i, lanes), hn::Set(kFloats, task.scale));
  FloatVector y = hn::IfThenZeroElse(drop, scaled);
  if (task.residual != nullptr) {
    y = hn::Add(LoadVector(static_cast<const T*>(task.residual) + i, lanes), RoundedTo<T>(y));
  }
  StoreVector(y, static_cast<T*>(task.y) + i, lanes);
}

// Elements [begin, end) of one sequence; begin is a multiple of 4. `offset` is where the sequence starts in the
// tensors.
template <typename T>
void DropOf(const DropoutTask& task, int64_t sequence, int64_t offset, int64_t begin, int64_t end) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));
  HWY_ALIGN uint32_t bits[4 * kLanes];
  for (int64_t first = begin; first < end; first += 4 * kLanes) {
    PhiloxGroups(task.key, sequence, first / 4, bits);
    ForEachVector(std::min(4 * kLanes, end - first), [&](int64_t i, auto lanes) HWY_ATTR {
      DropVector<T>(task, hn::Load(WordTag(), bits + i), offset + first + i, lanes);
    });
  }
}

void Drop(bool bfloat16, const DropoutTask& task, int64_t sequence, int64_t offset, int64_t begin, int64_t end) {
  bfloat16 ? DropOf<BFloat16>(task, sequence, offset, begin, end) : DropOf<float>(task, sequence, offset, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {
namespace {

HWY_EXPORT(Drop);

constexpr int64_t kChunk = 4096;  // elements of a sequence that one thread takes at a time

// dropout and dropout_add
class Dropout : public Kernel {
 public:
  Dropout(const KernelSpec& spec, int threads)
      : elements_(spec.inputs[0].elements()),
        sequence_elements_(spec.attributes.Int("sequence_length") * spec.inputs[0].columns()),
        salt_(spec.attributes.Int("salt")),
        p_(spec.attributes.Real("p")),
        has_residual_(spec.inputs.size() > 1),
        bfloat16_(IsBFloat16(spec)),
        threads_(threads) {}

  void Run(const KernelArguments& arguments) const override {
    if (arguments.outputs[0] == nullptr) return;
    const StepValues& step = *arguments.step;
    const DropoutTask task{.x = arguments.inputs[0],
                           .residual = has_residual_ ? arguments.inputs[1] : nullptr,
                           .y = arguments.outputs[0],
                           .key = MakeRandomKey(step.seed, step.step, OperationNumber(arguments.block, salt_)),
                           .threshold = DropThreshold(p_),
                           .scale = static_cast<float>(1 / (1 - p_))};
    const int64_t chunks = (sequence_elements_ + kChunk - 1) / kChunk;  // of a sequence
    const int64_t sequences = sequence_elements_ == 0 ? 0 : elements_ / sequence_elements_;
    ParallelFor(threads_, sequences * chunks, kGrainElements / kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sequence = i / chunks;
        const int64_t first = i % chunks * kChunk;
        HWY_DYNAMIC_DISPATCH(Drop)
        (bfloat16_, task, arguments.first_sequence + sequence, sequence * sequence_elements_, first,
         std::min(sequence_elements_, first + kChunk));
      }
    });
  }

 private:
  int64_t elements_;
  int64_t sequence_elements_;
  int64_t salt_;
  double p_;
  bool has_residual_;
  bool bfloat16_;
  int threads_;
};

KernelOr MakeDropout(const KernelSpec& spec, const KernelOptions& options) {
  RETURN_IF_ERROR(CheckFastType(spec));
  return std::make_unique<Dropout>(spec, options.threads);
}

[[maybe_unused]] const bool registered = RegisterKernel("dropout", KernelKind::kCpu, MakeDropout) &&
                                         RegisterKernel("dropout_add", KernelKind::kCpu, MakeDropout);

}  // namespace
}  // namespace reprise
#endif  // HWY_ONCE
