#include "runtime/schedule/step_exchange.h"

#include "base/status_macros.h"

namespace reprise {
namespace {

template <typename T>
absl::Span<const std::byte> BytesOf(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

}  // namespace

absl::Status StepExchange::TakeMemory() {
  ASSIGN_OR_RETURN(std::byte* const values, device_.TakeMemory(sizeof(StepValues)));
  values_ = reinterpret_cast<StepValues*>(values);
  if (device_.memory_is_of_host()) return absl::OkStatus();
  for (size_t kind = 0; kind < batches_.size(); ++kind) {
    for (const int32_t item : schedule_.items_of(static_cast<DataKind>(kind))) {
      batches_[kind].emplace_back(static_cast<size_t>(schedule_.items[static_cast<size_t>(item)].bytes));
    }
  }
  return absl::OkStatus();
}

absl::Span<std::byte> StepExchange::data(DataKind kind, int micro_batch) {
  const std::vector<int32_t>& items = schedule_.items_of(kind);
  if (items.empty()) return {};
  const auto m = static_cast<size_t>(micro_batch);
  if (!device_.memory_is_of_host()) return absl::MakeSpan(batches_[static_cast<size_t>(kind)][m]);
  return {Place(items[m]), static_cast<size_t>(schedule_.items[static_cast<size_t>(items[m])].bytes)};
}

absl::Status StepExchange::Give(const StepValues& values, int64_t counted_labels) {
  RETURN_IF_ERROR(device_.CopyToDevice(reinterpret_cast<std::byte*>(values_), BytesOf(values)));
  const auto count = static_cast<double>(counted_labels);
  std::byte* const place = Place(schedule_.scalars) + kCountScalar * static_cast<int64_t>(sizeof(double));
  RETURN_IF_ERROR(device_.CopyToDevice(place, BytesOf(count)));
  for (size_t kind = 0; kind < batches_.size(); ++kind) {
    const std::vector<int32_t>& items = schedule_.items_of(static_cast<DataKind>(kind));
    for (size_t m = 0; m < batches_[kind].size(); ++m) {
      RETURN_IF_ERROR(device_.CopyToDevice(Place(items[m]), batches_[kind][m]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StepSums> StepExchange::TakeSums() {
  std::array<double, kScalarCount> sums{};
  RETURN_IF_ERROR(
      device_.CopyToHost({reinterpret_cast<std::byte*>(sums.data()), sizeof(sums)}, Place(schedule_.scalars)));
  return StepSums{.loss = sums[kLossScalar], .squares = sums[kSquaresScalar], .count = sums[kCountScalar]};
}

}  // namespace reprise
