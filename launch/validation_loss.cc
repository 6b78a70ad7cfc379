#include "launch/validation_loss.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {

absl::StatusOr<double> ValidationLoss(const ValidationBatches& batches, TrainingJob& job, Communicator& communicator,
                                      Progress* progress) {
  const int64_t count = batches.batches();
  const int ranks = communicator.size();
  Batch batch = job.batch(0);
  // Loss and count of each batch: only its own rank's are not zero, so that the sum over ranks is exact.
  std::vector<double> sums(static_cast<size_t>(count) * 2, 0.0);
  for (int64_t k = communicator.rank(); k < count + communicator.rank(); k += ranks) {
    // Every rank takes part in every round, for its gathers; without a batch left, with rows that do not count.
    const bool has_batch = k < count;
    if (!has_batch && k - communicator.rank() >= count) break;
    if (has_batch) {
      RETURN_IF_ERROR(batches.Fill(k, &batch));
    } else {
      FillIgnored(batch.data);
    }
    ASSIGN_OR_RETURN(const double loss, job.Evaluate());
    if (has_batch) {
      sums[static_cast<size_t>(k) * 2] = loss;
      sums[static_cast<size_t>(k) * 2 + 1] = static_cast<double>(batch.counted);
    }
    progress->Waiting(absl::StrCat("validation batch ", std::min(k + ranks, count), "/", count));
  }
  RETURN_IF_ERROR(AllReduce(communicator, "validation loss", absl::MakeSpan(sums)));
  double loss = 0;
  double labels = 0;
  for (size_t k = 0; k < sums.size(); k += 2) {
    loss += sums[k];
    labels += sums[k + 1];
  }
  return labels > 0 ? loss / labels : 0.0;
}

}  // namespace reprise
