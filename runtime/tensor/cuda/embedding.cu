// Embeddings: a block a row. The gradient sums the rows of each token in the order of the batch, without atomics: first
// every row finds its place in the order of (token, row) by counting who stands before it, then a block a row of the
// table adds up its own. Counting compares all rows with all, from shared memory: for 32768 rows less than a fifth of a
// millisecond on a GPU of 2022, and no order but this one can come out.
#include "runtime/tensor/cuda/cuda_kernel.h"
#include "runtime/tensor/cuda/pack.h"

namespace reprise::cuda {
namespace {

template <typename T>
struct EmbeddingTask {
  const int32_t* tokens;
  const T* token_table;
  const T* position_table;   // or null
  const int32_t* positions;  // or null: rows are counted
  T* x;
  int64_t width;
  int64_t length;
};

template <typename T, int N>
REPRISE_KERNEL void EmbedRow(EmbeddingTask<T> task) {
  const int64_t row = BlockX();
  const int64_t token = task.tokens[row];
  const int64_t position = task.positions == nullptr ? row % task.length : task.positions[row];
  ForEachPack<N>(task.width, [&](int64_t c) {
    Pack<T, N> x = LoadPack<N>(task.token_table + token * task.width + c);
    if (task.position_table != nullptr) {
      const Pack<T, N> added = LoadPack<N>(task.position_table + position * task.width + c);
      for (int k = 0; k < N; ++k) x.values[k] = Rounded<T>(Widened(x.values[k]) + Widened(added.values[k]));
    }
    StorePack(x, task.x + row * task.width + c);
  });
}

// The rows of the batch that belong to each row of a table: listed, or for counted positions every `length`-th.
struct RowLists {
  int32_t* order = nullptr;  // rows by (id, row); null: counted positions
  int32_t* begin = nullptr;  // of each id, in `order`
  int32_t* end = nullptr;
  int64_t rows = 0;
  int64_t length = 1;

  REPRISE_ON_DEVICE int64_t Count(int64_t id) const {
    if (order != nullptr) return end[id] - begin[id];
    return id < length ? rows / length : 0;
  }
  REPRISE_ON_DEVICE int64_t Row(int64_t id, int64_t k) const {
    return order != nullptr ? order[begin[id] + k] : id + k * length;
  }
};

REPRISE_KERNEL void EmptyLists(RowLists lists, int64_t ids) {
  const int64_t id = ThisItem();
  if (id < ids) lists.begin[id] = lists.end[id] = 0;
}

// Every row finds its place; the first and the last row of an id say where its list begins and ends.
REPRISE_KERNEL void OrderRows(const int32_t* ids, RowLists lists) {
  auto* tile = Shared<int32_t>();
  const int64_t row = ThisItem();
  const int32_t own = row < lists.rows ? ids[row] : 0;
  int32_t smaller = 0;
  int32_t earlier = 0;
  int32_t equal = 0;
  for (int64_t first = 0; first < lists.rows; first += Threads()) {
    Barrier();
    if (first + Thread() < lists.rows) tile[Thread()] = ids[first + Thread()];
    Barrier();
    const auto count = static_cast<int>(std::min<int64_t>(Threads(), lists.rows - first));
    const auto before = static_cast<int>(std::clamp<int64_t>(row - first, 0, count));
    for (int k = 0; k < count; ++k) {
      const int32_t other = tile[k];
      smaller += other < own ? 1 : 0;
      equal += other == own ? 1 : 0;
      earlier += other == own && k < before ? 1 : 0;
    }
  }
  if (row >= lists.rows) return;
  const int32_t place = smaller + earlier;
  lists.order[place] = static_cast<int32_t>(row);
  if (earlier == 0) lists.begin[own] = place;
  if (earlier + 1 == equal) lists.end[own] = place + 1;
}

template <typename T, int N>
REPRISE_KERNEL void SumRows(RowLists lists, const T* dx, float* table, int64_t width, bool accumulate) {
  const int64_t id = BlockX();
  const int64_t count = lists.Count(id);
  ForEachPack<N>(width, [&](int64_t c) {
    Pack<float, N> sums = {};
    for (int64_t k = 0; k < count; ++k) {
      const Pack<T, N> added = LoadPack<N>(dx + lists.Row(id, k) * width + c);
      for (int i = 0; i < N; ++i) sums.values[i] += Widened(added.values[i]);
    }
    float* place = table + id * width + c;
    if (accumulate) {
      const Pack<float, N> before = LoadPack<N>(place);
      for (int i = 0; i < N; ++i) sums.values[i] = before.values[i] + sums.values[i];
    }
    StorePack(sums, place);
  });
}

// Starts what fills `lists` from the ids of all rows.
void MakeLists(const int32_t* ids, int64_t distinct, const RowLists& lists) {
  Launch({.blocks = BlocksFor(distinct), .threads = kThreads}, EmptyLists, lists, distinct);
  const int threads = ThreadsFor(lists.rows);
  Launch({.blocks = (lists.rows + threads - 1) / threads,
          .threads = threads,
          .shared_bytes = threads * static_cast<int64_t>(sizeof(int32_t))},
         OrderRows, ids, lists);
}

KernelOr MakeEmbedding(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[0].elements();
  const int64_t width = spec.inputs[1].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const size_t inputs = spec.inputs.size();
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    return MakeCudaKernel(spec, [=](const KernelArguments& arguments) {
      const EmbeddingTask<T> task{.tokens = Input<int32_t>(arguments, 0),
                                  .token_table = Input<T>(arguments, 1),
                                  .position_table = inputs > 2 ? Input<T>(arguments, 2) : nullptr,
                                  .positions = inputs > 3 ? Input<int32_t>(arguments, 3) : nullptr,
                                  .x = Output<T>(arguments, 0),
                                  .width = width,
                                  .length = length};
      if (task.x == nullptr) return;
      Launch({.blocks = rows, .threads = ThreadsFor(width / N::value)}, EmbedRow<T, N::value>, task);
    });
  });
}

KernelOr MakeEmbeddingGradient(const KernelSpec& spec, const KernelOptions& /*options*/) {
  const int64_t rows = spec.inputs[1].rows();
  const int64_t width = spec.inputs[1].columns();
  const int64_t length = spec.attributes.Int("sequence_length");
  const int64_t vocabulary = spec.outputs[0].rows();
  const int64_t positions = spec.outputs.size() > 1 ? spec.outputs[1].rows() : 0;
  const bool given = spec.inputs.size() > 2;
  const int64_t distinct = std::max(vocabulary, given ? positions : 0);
  return WithPackSize(spec, width, [&]<typename T, typename N>(T /*type*/, N /*elements*/) {
    const auto run = [=](const KernelArguments& arguments) {
      auto* scratch = reinterpret_cast<int32_t*>(arguments.scratch);
      const RowLists lists{
          .order = scratch, .begin = scratch + rows, .end = scratch + rows + distinct, .rows = rows, .length = length};
      const auto sum = [&](const RowLists& of, int64_t ids, int output) {
        Launch({.blocks = ids, .threads = ThreadsFor(width / N::value)}, SumRows<T, N::value>, of,
               Input<T>(arguments, 1), Output<float>(arguments, output), width, Accumulates(arguments, output));
      };
      if (arguments.outputs[0] != nullptr) {
        MakeLists(Input<int32_t>(arguments, 0), vocabulary, lists);
        sum(lists, vocabulary, 0);
      }
      if (positions == 0 || arguments.outputs[1] == nullptr) return;
      if (given) MakeLists(Input<int32_t>(arguments, 2), positions, lists);
      sum(given ? lists : RowLists{.rows = rows, .length = length}, positions, 1);
    };
    return MakeCudaKernel(spec, run, (rows + 2 * distinct) * static_cast<int64_t>(sizeof(int32_t)));
  });
}

[[maybe_unused]] const bool registered = RegisterKernel("embedding", KernelKind::kCuda, MakeEmbedding) &&
                                         RegisterKernel("embedding_gradient", KernelKind::kCuda, MakeEmbeddingGradient);

}  // namespace
}  // namespace reprise::cuda
