// Which sequences of a data set a rank trains on, step by step: the same for any number of ranks. A sequence is a
// window of tokens or an image; here they are called windows.
//
//   BatchPlan plan = {.ranks = 4, .micro_batch = 8, .accumulation = 2, .seed = 1};
//   ASSIGN_OR_RETURN(TrainingBatches batches, TrainingBatches::Create(data.get(), plan));
//   BatchStorage storage(8, 1024);
//   for (int64_t m = 0; m < plan.accumulation; ++m) {
//     RETURN_IF_ERROR(batches.Fill(step, rank, m, &storage.batch()));
//   }
//
// A step takes S = ranks x micro-batch x accumulation windows. Row b of micro-batch m of rank r is sequence
// (m x ranks + r) x micro_batch + b of the step, so the step's windows depend on S alone. An epoch goes through all
// windows in an order drawn from (seed, epoch) by Fisher-Yates on Philox bits; its last step is filled with rows that
// do not count (tokens 0, labels -100). Steps go on over epochs without end; any step can be asked for at any time, so
// a resumed run needs nothing but its step.
#ifndef REPRISE_RUNTIME_TRAIN_BATCHES_H_
#define REPRISE_RUNTIME_TRAIN_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/train/batch.h"
#include "runtime/train/sequence_source.h"

namespace reprise {

struct BatchPlan {
  int64_t ranks = 1;
  int64_t micro_batch = 1;   // rows
  int64_t accumulation = 1;  // micro-batches a step
  int64_t seed = 1;
};

// The order of an epoch's windows: order[i] is the window in place i. Uniform over all orders, the same on every
// machine.
void ShuffleWindows(int64_t seed, int64_t epoch, std::vector<uint32_t>* order);

// For one thread. Holds four bytes a window; `data` must outlive it.
class TrainingBatches {
 public:
  // InvalidArgument for a plan whose numbers are not positive or too large; DataLoss where the data has fewer windows
  // than ranks x micro-batch.
  static absl::StatusOr<TrainingBatches> Create(const SequenceSource* data, const BatchPlan& plan);

  int64_t sequences_per_step() const { return sequences_per_step_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Takes no memory for windows of tokens. The batch holds micro_batch rows.
  absl::Status Fill(int64_t step, int64_t rank, int64_t micro_batch_index, Batch* batch);

 private:
  TrainingBatches() = default;

  const SequenceSource* data_ = nullptr;
  BatchPlan plan_;
  int64_t sequences_per_step_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t epoch_ = -1;  // whose order is in order_
  std::vector<uint32_t> order_;
};

// Validation: batch k holds windows [k B, (k + 1) B) in file order, whatever the number of ranks; rank k mod ranks
// takes it. The last is padded with rows that do not count. Safe from several threads.
class ValidationBatches {
 public:
  // The first `most_windows` windows only; 0: all. DataLoss where the data has no window.
  static absl::StatusOr<ValidationBatches> Create(const SequenceSource* data, int64_t micro_batch,
                                                  int64_t most_windows = 0);

  int64_t batches() const { return (windows_ + micro_batch_ - 1) / micro_batch_; }
  absl::Status Fill(int64_t index, Batch* batch) const;

 private:
  ValidationBatches() = default;

  const SequenceSource* data_ = nullptr;
  int64_t micro_batch_ = 1;
  int64_t windows_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_BATCHES_H_
