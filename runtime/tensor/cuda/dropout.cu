// Dropout: a thread whole groups of four elements of a sequence, as the random bits come. Seed and step are read by the
// kernel itself: a captured graph draws anew in each step.
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/flat.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/philox.h"

namespace reprise::cuda {
namespace {

constexpr int kGroup = 4;               // elements of one RandomBits
constexpr int64_t kMostBlocks = 2048;   // beyond them a thread goes on, with the key it has
constexpr int64_t kMostBlocksY = 2048;  // sequences side by side

template <typename T>
struct DropoutTask {
  const T* x;
  const T* residual;  // or null
  T* y;
  const StepValues* step;
  uint64_t operation;
  int64_t first_sequence;
  int64_t sequences;
  int64_t sequence_elements;
  uint32_t threshold;
  float scale;
};

// N = 1: sequences do not start at multiples of a pack.
template <int N>
inline constexpr int kElements = N == 1 ? kGroup : N;

template <int N, typename T>
REPRISE_ON_DEVICE Pack<T, kElements<N>> Load(const T* place, int64_t left) {
  if constexpr (N == 1) {
    return LoadPart<kGroup>(place, left);
  } else {
    return LoadPack<N>(place);
  }
}

// Elements element .. of one sequence.
template <typename T, int N>
REPRISE_ON_DEVICE void DropPack(const DropoutTask<T>& task, RandomKey key, int64_t sequence, int64_t element) {
  const int64_t i = sequence * task.sequence_elements + element;
  const int64_t left = task.sequence_elements - element;
  Pack<T, kElements<N>> y = Load<N>(task.x + i, left);
  Pack<T, kElements<N>> residual{};
  if (task.residual != nullptr) residual = Load<N>(task.residual + i, left);
  for (int first = 0; first < kElements<N>; first += kGroup) {
    const auto bits = RandomBits(key, task.first_sequence + sequence, (element + first) / kGroup);
    for (int k = 0; k < kGroup; ++k) {
      T& value = y.values[first + k];
      const bool keep = bits[static_cast<size_t>(k)] >= task.threshold;
      value = Rounded<T>(keep ? Widened(value) * task.scale : 0.0F);
      if (task.residual != nullptr) value = Rounded<T>(Widened(residual.values[first + k]) + Widened(value));
    }
  }
  if constexpr (N == 1) {
    StorePart(y, task.y + i, left);
  } else {
    StorePack(y, task.y + i);
  }
}

template <typename T, int N>
REPRISE_KERNEL void Drop(DropoutTask<T> task) {
  const RandomKey key = MakeRandomKey(task.step->seed, task.step->step, task.operation);
  const int64_t first = kElements<N> * ThisItem();
  const int64_t stride = kElements<N> * BlocksX() * Threads();
  for (int64_t sequence = BlockY(); sequence < task.sequences; sequence += kMostBlocksY) {
    for (int64_t i = first; i < task.sequence_elements; i += stride) DropPack<T, N>(task, key, sequence, i);
  }
}

template <int N>
LaunchShape Shape(int64_t sequences, int64_t sequence_elements) {
  const int64_t packs = (sequence_elements + kElements<N> - 1) / kElements<N>;
  const int threads = ThreadsFor(packs);
  const int64_t blocks_y = std::min(sequences, kMostBlocksY);
  const int64_t most = kMostBlocks / std::max<int64_t>(blocks_y, 1);
  return {.blocks = std::min((packs + threads - 1) / threads, most), .blocks_y = blocks_y, .threads = threads};
}

// dropout and dropout_add
KernelOr MakeDropout(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t sequence_elements = spec.attributes.Int("sequence_length") * spec.inputs[0].columns();
  const int64_t sequences = sequence_elements == 0 ? 0 : spec.inputs[0].elements() / sequence_elements;
  const int64_t salt = spec.attributes.Int("salt");
  const double p = spec.attributes.Real("p");
  const bool added = spec.inputs.size() > 1;
  return WithPackSize(spec, sequence_elements, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const DropoutTask<T> task{.x = Input<T>(arguments, 0),
                                .residual = added ? Input<T>(arguments, 1) : nullptr,
                                .y = Output<T>(arguments, 0),
                                .step = arguments.step,
                                .operation = OperationNumber(arguments.block, salt),
                                .first_sequence = arguments.first_sequence,
                                .sequences = sequences,
                                .sequence_elements = sequence_elements,
                                .threshold = DropThreshold(p),
                                .scale = static_cast<float>(1 / (1 - p))};
      if (task.y == nullptr) return;
      Launch(Shape<N::value>(sequences, sequence_elements), Drop<T, N::value>, task);
    });
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("dropout", KernelKind::kCuda, MakeDropout) &&
                                         RegisterKernel("dropout_add", KernelKind::kCuda, MakeDropout);

}  // namespace
}  // namespace reprise::cuda
