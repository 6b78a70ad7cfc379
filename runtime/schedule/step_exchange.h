// StepExchange: what the host and the device hand each other around a step. Before it: the values that kernels read,
// the count of labels, the batch; after it: the sums over all ranks.
//
//   StepExchange exchange(schedule, device);
//   RETURN_IF_ERROR(exchange.TakeMemory());               // once
//   ... fill exchange.data(kind, micro_batch) ...
//   RETURN_IF_ERROR(exchange.Give(values, counted_labels));
//   ... the step ...
//   ASSIGN_OR_RETURN(StepSums sums, exchange.TakeSums());
//
// A batch is filled in the arena where the host reaches it, else in memory of its own. For the issuing thread, between
// steps.
#ifndef REPRISE_RUNTIME_SCHEDULE_STEP_EXCHANGE_H_
#define REPRISE_RUNTIME_SCHEDULE_STEP_EXCHANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/device.h"
#include "runtime/graph/data_kind.h"
#include "runtime/schedule/schedule.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

struct StepSums {
  double loss = 0;
  double squares = 0;  // of the gradient's elements
  double count = 0;    // of labels that count
};

class StepExchange {
 public:
  // Both must outlive it.
  StepExchange(const Schedule& schedule, Device& device) : schedule_(schedule), device_(device) {}

  absl::Status TakeMemory();

  // Empty for a kind that the schedule does not read.
  absl::Span<std::byte> data(DataKind kind, int micro_batch);

  // In the device's memory, for kernels; the two that `step_factor` writes are its last.
  StepValues* values() const { return values_; }

  absl::Status Give(const StepValues& values, int64_t counted_labels);
  absl::StatusOr<StepSums> TakeSums();

 private:
  std::byte* Place(int32_t item) const { return device_.arena() + schedule_.items[static_cast<size_t>(item)].offset; }

  const Schedule& schedule_;
  Device& device_;
  StepValues* values_ = nullptr;
  // By kind and micro-batch; empty where the host reaches the arena.
  std::array<std::vector<std::vector<std::byte>>, kDataKindCount> batches_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_STEP_EXCHANGE_H_
