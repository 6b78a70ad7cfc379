#include "runtime/train/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/tensor/philox.h"

namespace reprise {
namespace {

// Operation numbers of a model are block << 16 | salt; no block is so far out.
constexpr uint64_t kShuffleOperation = ~uint64_t{0};
constexpr int64_t kMostWindows = std::numeric_limits<uint32_t>::max();

// Row b from window window_of(b), or as one that does not count where that is negative.
template <typename WindowOf>
absl::Status FillRows(const SequenceSource& data, int64_t rows, WindowOf window_of, Batch* batch) {
  batch->counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const BatchData part = batch->Row(row, rows);
    const int64_t window = window_of(row);
    if (window < 0) {
      FillIgnored(part);
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t counted, data.ReadSequence(window, part));
    batch->counted += counted;
  }
  return absl::OkStatus();
}

absl::Status TooFew(const SequenceSource& data, const std::string& need, absl::string_view mend) {
  return absl::DataLossError(absl::StrCat(data.path(), " holds ", data.Contents(), ", where ", need, "; ", mend));
}

}  // namespace

void ShuffleWindows(int64_t seed, int64_t epoch, std::vector<uint32_t>* order) {
  std::iota(order->begin(), order->end(), 0U);
  const RandomKey key = MakeRandomKey(static_cast<uint64_t>(seed), epoch, kShuffleOperation);
  for (size_t left = order->size(); left > 1; --left) {
    // 64 random bits times at most 2^32: no order is favoured by more than one part in 2^32.
    const std::array<uint32_t, 4> bits = RandomBits(key, static_cast<int64_t>(left), 0);
    const uint64_t low = uint64_t{bits[0]} * left;
    const uint64_t chosen = (uint64_t{bits[1]} * left + (low >> 32)) >> 32;
    std::swap((*order)[left - 1], (*order)[chosen]);
  }
}

absl::StatusOr<TrainingBatches> TrainingBatches::Create(const SequenceSource* data, const BatchPlan& plan) {
  int64_t together = 0;
  int64_t sequences = 0;
  if (plan.ranks < 1 || plan.micro_batch < 1 || plan.accumulation < 1 ||
      __builtin_mul_overflow(plan.ranks, plan.micro_batch, &together) ||
      __builtin_mul_overflow(together, plan.accumulation, &sequences) || sequences > kMostWindows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of ", plan.ranks, " ranks x --micro_batch=", plan.micro_batch,
                     " x --accumulation=", plan.accumulation, " sequences can't be; each must be at least 1"));
  }
  if (data->sequences() < together) {
    return TooFew(*data, absl::StrCat(plan.ranks, " ranks x --micro_batch=", plan.micro_batch, " need ", together),
                  absl::StrCat("give more data, or ", data->Mend()));
  }
  if (data->sequences() > kMostWindows) {
    return absl::InvalidArgumentError(absl::StrCat(data->path(), " makes ", data->sequences(),
                                                   " sequences where at most ", kMostWindows,
                                                   " can be; use a longer --sequence_length"));
  }
  TrainingBatches result;
  result.data_ = data;
  result.plan_ = plan;
  result.sequences_per_step_ = sequences;
  result.steps_per_epoch_ = (data->sequences() + sequences - 1) / sequences;
  result.order_.resize(static_cast<size_t>(data->sequences()));
  return result;
}

absl::Status TrainingBatches::Fill(int64_t step, int64_t rank, int64_t micro_batch_index, Batch* batch) {
  REPRISE_CHECK(step >= 0 && rank >= 0 && rank < plan_.ranks && micro_batch_index >= 0 &&
                micro_batch_index < plan_.accumulation)
      << "step " << step << ", rank " << rank << ", micro-batch " << micro_batch_index;
  const int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) {
    ShuffleWindows(plan_.seed, epoch, &order_);
    epoch_ = epoch;
  }
  batch->first_sequence = (micro_batch_index * plan_.ranks + rank) * plan_.micro_batch;
  const int64_t first_place = step % steps_per_epoch_ * sequences_per_step_ + batch->first_sequence;
  const auto window_of = [&](int64_t row) {
    const auto place = static_cast<size_t>(first_place + row);
    return place < order_.size() ? int64_t{order_[place]} : -1;
  };
  return FillRows(*data_, plan_.micro_batch, window_of, batch);
}

absl::StatusOr<ValidationBatches> ValidationBatches::Create(const SequenceSource* data, int64_t micro_batch,
                                                            int64_t most_windows) {
  if (micro_batch < 1) return absl::InvalidArgumentError("--micro_batch must be at least 1");
  if (data->sequences() < 1) {
    return TooFew(*data, "validation needs at least one", "give more validation data or a smaller --sequence_length");
  }
  ValidationBatches result;
  result.data_ = data;
  result.micro_batch_ = micro_batch;
  result.windows_ = most_windows > 0 ? std::min(most_windows, data->sequences()) : data->sequences();
  return result;
}

absl::Status ValidationBatches::Fill(int64_t index, Batch* batch) const {
  REPRISE_CHECK(index >= 0 && index < batches()) << "validation batch " << index << " of " << batches();
  batch->first_sequence = index * micro_batch_;
  const auto window_of = [&](int64_t row) {
    const int64_t window = index * micro_batch_ + row;
    return window < windows_ ? window : -1;
  };
  return FillRows(*data_, micro_batch_, window_of, batch);
}

}  // namespace reprise
