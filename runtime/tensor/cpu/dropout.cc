#include <algorithm>
#include <array>

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

// DropOf: elements [begin, end) of one sequence; begin is a multiple of 4. `offset` is where the sequence starts in the
// tensors.

#if HWY_TARGET == HWY_SCALAR
template <typename T>
void DropOf(const DropoutTask& task, int64_t sequence, int64_t offset, int64_t begin, int64_t end) {
  for (int64_t group = begin / 4; group * 4 < end; ++group) {
    const std::array<uint32_t, 4> bits = RandomBits(task.keys[0], sequence, group);
    for (int64_t element = group * 4; element < std::min(end, group * 4 + 4); ++element) {
      DropVector<T>(task, hn::Set(WordTag(), bits[static_cast<size_t>(element % 4)]), offset + element, AllLanes());
    }
  }
}
#else
using WideTag = hn::ScalableTag<uint64_t>;
using WideVector = hn::Vec<WideTag>;

constexpr WideTag kWides;
constexpr int64_t kGroups = hn::MaxLanes(WideTag());  // of four elements, in one call of MaskWords

// The four words of a counter, one group a lane, in the lower halves of 64-bit lanes: one multiplication of the lower
// halves gives both halves of a product, and what stands above a word is never looked at.
struct Counter {
  WideVector word[4];
};

HWY_INLINE WideVector Product(WideVector a, uint32_t multiplier) {
  return hn::MulEven(hn::BitCast(WordTag(), a), hn::Set(WordTag(), multiplier));
}

HWY_INLINE Counter Round(const Counter& c, RandomKey key) {
  const WideVector first = Product(c.word[0], 0xD2511F53U);
  const WideVector second = Product(c.word[2], 0xCD9E8D57U);
  const WideVector low_key = hn::Set(kWides, key.low);
  const WideVector high_key = hn::Set(kWides, key.high);
  return {{hn::Xor(hn::Xor(hn::ShiftRight<32>(second), c.word[1]), low_key), second,
           hn::Xor(hn::Xor(hn::ShiftRight<32>(first), c.word[3]), high_key), first}};
}

// Philox4x32-10 of kGroups consecutive groups: the words of elements in order, in two vectors of 32-bit lanes.
struct Words {
  hn::Vec<WordTag> first;
  hn::Vec<WordTag> second;
};

HWY_INLINE Words RandomWords(const DropoutTask& task, int64_t sequence, int64_t group) {
  // Interleaving, at the end, takes lanes 2k and 2k + 1 apart: so they hold groups k and kGroups / 2 + k.
  HWY_ALIGN uint64_t lanes[kGroups];
  for (int64_t i = 0; i < kGroups; ++i) {
    lanes[i] = static_cast<uint64_t>(group + i % 2 * (kGroups / 2) + i / 2);
  }
  const WideVector groups = hn::Load(kWides, lanes);
  const auto sequence_bits = static_cast<uint64_t>(sequence);
  Counter c{{groups, hn::ShiftRight<32>(groups), hn::Set(kWides, sequence_bits), hn::Set(kWides, sequence_bits >> 32)}};
  for (const RandomKey& key : task.keys) c = Round(c, key);
  const WideVector low = hn::Set(kWides, 0xFFFFFFFFU);
  const WideVector front = hn::Or(hn::And(c.word[0], low), hn::ShiftLeft<32>(c.word[1]));
  const WideVector back = hn::Or(hn::And(c.word[2], low), hn::ShiftLeft<32>(c.word[3]));
  return {hn::BitCast(WordTag(), hn::InterleaveLower(kWides, front, back)),
          hn::BitCast(WordTag(), hn::InterleaveUpper(kWides, front, back))};
}

template <typename T>
HWY_INLINE void DropSome(const DropoutTask& task, hn::Vec<WordTag> words, int64_t i, int64_t count) {
  if (count > 0) DropVector<T>(task, words, i, SomeLanes{count});
}

// Elements [begin, end) of one sequence; begin is a multiple of 4. `offset` is where the sequence starts in the
// tensors.
template <typename T>
void DropOf(const DropoutTask& task, int64_t sequence, int64_t offset, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = hn::MaxLanes(FloatTag());
  int64_t element = begin;
  for (; element + 2 * kLanes <= end; element += 2 * kLanes) {
    const Words words = RandomWords(task, sequence, element / 4);
    DropVector<T>(task, words.first, offset + element, AllLanes());
    DropVector<T>(task, words.second, offset + element + kLanes, AllLanes());
  }
  if (element == end) return;
  const Words words = RandomWords(task, sequence, element / 4);
  const int64_t count = end - element;
  if (count < kLanes) return DropSome<T>(task, words.first, offset + element, count);
  DropVector<T>(task, words.first, offset + element, AllLanes());
  DropSome<T>(task, words.second, offset + element + kLanes, count - kLanes);
}
#endif  // HWY_TARGET == HWY_SCALAR

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

std::array<RandomKey, 10> RoundKeys(RandomKey key) {
  std::array<RandomKey, 10> keys;
  for (RandomKey& round_key : keys) {
    round_key = key;
    key.low += 0x9E3779B9U;
    key.high += 0xBB67AE85U;
  }
  return keys;
}

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
    const DropoutTask task{
        .x = arguments.inputs[0],
        .residual = has_residual_ ? arguments.inputs[1] : nullptr,
        .y = arguments.outputs[0],
        .keys = RoundKeys(MakeRandomKey(step.seed, step.step, OperationNumber(arguments.block, salt_))),
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
