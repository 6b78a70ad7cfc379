// Batch: one micro-batch of one rank, in buffers of somebody else's: a job's, or BatchStorage.
//
//   Batch batch = job->batch(/*micro_batch=*/0);
//   RETURN_IF_ERROR(batches.Fill(step, rank, 0, &batch));
//   batch.counted;   // labels that count
#ifndef REPRISE_RUNTIME_TRAIN_BATCH_H_
#define REPRISE_RUNTIME_TRAIN_BATCH_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "runtime/graph/data_kind.h"

namespace reprise {

// Label of a row that does not count.
inline constexpr int32_t kIgnoredLabel = -100;

// Bytes of each kind of data, by DataKind; empty: not there.
using BatchData = std::array<absl::Span<std::byte>, kDataKindCount>;

template <typename T>
absl::Span<T> DataAs(const BatchData& data, DataKind kind) {
  const absl::Span<std::byte> bytes = data[static_cast<size_t>(kind)];
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

struct Batch {
  BatchData data = {};         // rows one after the other: [rows, T] tokens and so on, see DataKind
  int64_t first_sequence = 0;  // of its first row, in the global step: counter of the random numbers
  int64_t counted = 0;         // labels that count

  absl::Span<int32_t> tokens() const { return DataAs<int32_t>(data, DataKind::kTokens); }
  absl::Span<int32_t> labels() const { return DataAs<int32_t>(data, DataKind::kLabels); }

  // The part of each kind that belongs to row `row` of `rows`.
  BatchData Row(int64_t row, int64_t rows) const {
    BatchData part;
    for (size_t kind = 0; kind < data.size(); ++kind) {
      const size_t bytes = data[kind].size() / static_cast<size_t>(rows);
      part[kind] = data[kind].subspan(static_cast<size_t>(row) * bytes, bytes);
    }
    return part;
  }
};

// Makes rows that do not count: zeros, labels -100.
inline void FillIgnored(const BatchData& rows) {
  for (const absl::Span<std::byte> bytes : rows) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  const absl::Span<int32_t> labels = DataAs<int32_t>(rows, DataKind::kLabels);
  std::fill(labels.begin(), labels.end(), kIgnoredLabel);
}

// Buffers for one batch of tokens and their labels.
class BatchStorage {
 public:
  BatchStorage(int64_t rows, int64_t sequence_length)
      : tokens_(static_cast<size_t>(rows * sequence_length)), labels_(tokens_.size()) {
    Put(DataKind::kTokens, &tokens_);
    Put(DataKind::kLabels, &labels_);
  }
  BatchStorage(const BatchStorage&) = delete;
  BatchStorage& operator=(const BatchStorage&) = delete;

  Batch& batch() { return batch_; }

 private:
  void Put(DataKind kind, std::vector<int32_t>* values) {
    batch_.data[static_cast<size_t>(kind)] = {reinterpret_cast<std::byte*>(values->data()),
                                              values->size() * sizeof(int32_t)};
  }

  std::vector<int32_t> tokens_;
  std::vector<int32_t> labels_;
  Batch batch_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_BATCH_H_
