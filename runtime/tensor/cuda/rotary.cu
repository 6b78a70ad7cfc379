// Rotary positions: a block a row, a thread some neighbouring pairs of a head. Cosines and sines are the table that the
// CPU reads (rotary_table.h), copied once: sincosf would drift at long sequences and take a stack frame.
#include <map>
#include <mutex>

#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/device_constant.h"
#include "runtime/tensor/cuda/pack.h"
#include "runtime/tensor/rotary_table.h"

namespace reprise::cuda {
namespace {

struct DeviceTable {
  std::shared_ptr<const RotaryTable> host;
  std::shared_ptr<const float> cosine;
  std::shared_ptr<const float> sine;
};

// Kernels of equal tables share one, for as long as one of them lives.
absl::StatusOr<std::shared_ptr<const DeviceTable>> SharedDeviceTable(const KernelSpec& spec) {
  static auto* mutex = new std::mutex;
  static auto* tables = new std::map<const RotaryTable*, std::weak_ptr<const DeviceTable>>;
  const std::shared_ptr<const RotaryTable> host = SharedRotaryTable(spec);
  const std::lock_guard lock(*mutex);
  std::weak_ptr<const DeviceTable>& known = (*tables)[host.get()];
  if (auto table = known.lock()) return table;
  auto cosine = MakeDeviceConstant<float>(host->cosine);
  if (!cosine.ok()) return cosine.status();
  auto sine = MakeDeviceConstant<float>(host->sine);
  if (!sine.ok()) return sine.status();
  auto table = std::make_shared<const DeviceTable>(DeviceTable{host, *std::move(cosine), *std::move(sine)});
  known = table;
  return table;
}

template <typename T>
struct RotaryTask {
  const T* x;
  const int32_t* positions;  // or null: rows are counted
  const float* cosine;
  const float* sine;
  T* y;
  int64_t length;
  int half;  // of a head's features
  int heads;
  float direction;
};

template <typename T, int N>
REPRISE_KERNEL void RotateRow(RotaryTask<T> task) {
  const int64_t row = BlockX();
  const int64_t position = task.positions == nullptr ? row % task.length : task.positions[row];
  const int64_t first = row * task.heads * 2 * task.half;
  const int packs = task.half / N;  // of a head
  for (int pack = Thread(); pack < task.heads * packs; pack += Threads()) {
    const int head = pack / packs;
    const int i = pack % packs * N;
    const int64_t left = first + int64_t{2} * head * task.half + i;
    const int64_t right = left + task.half;
    Pack<T, N> a = LoadPack<N>(task.x + left);
    Pack<T, N> b = LoadPack<N>(task.x + right);
    const Pack<float, N> cosines = LoadPack<N>(task.cosine + position * task.half + i);
    const Pack<float, N> sines = LoadPack<N>(task.sine + position * task.half + i);
    for (int k = 0; k < N; ++k) {
      const float x = Widened(a.values[k]);
      const float y = Widened(b.values[k]);
      const float sine = task.direction * sines.values[k];
      a.values[k] = Rounded<T>(x * cosines.values[k] - y * sine);
      b.values[k] = Rounded<T>(y * cosines.values[k] + x * sine);
    }
    StorePack(a, task.y + left);
    StorePack(b, task.y + right);
  }
}

KernelOr MakeRotary(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].rows();
  const int64_t heads = spec.attributes.Int("heads");
  const float direction = spec.attributes.Int("inverse") != 0 ? -1 : 1;
  const bool given = spec.inputs.size() > 1;
  const auto table = SharedDeviceTable(spec);
  if (!table.ok()) return table.status();
  const int64_t half = (*table)->host->half;
  return WithPackSize(spec, half, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=, table = *table](const KernelArguments& arguments) {
      const RotaryTask<T> task{.x = Input<T>(arguments, 0),
                               .positions = given ? Input<int32_t>(arguments, 1) : nullptr,
                               .cosine = table->cosine.get(),
                               .sine = table->sine.get(),
                               .y = Output<T>(arguments, 0),
                               .length = table->host->length,
                               .half = static_cast<int>(half),
                               .heads = static_cast<int>(heads),
                               .direction = direction};
      if (task.y == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(heads * half / N::value)}, RotateRow<T, N::value>, task);
    });
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("rotary", KernelKind::kCuda, MakeRotary);

}  // namespace
}  // namespace reprise::cuda
