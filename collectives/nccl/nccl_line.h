// NcclLine: one communicator of NCCL, for one sequence, and what is under way on it.
//
//   NcclLine line(nccl, Sequence::kGather, rank, ranks, deadline_seconds);
//   RETURN_IF_ERROR(line.Open(id));           // on every rank
//   RETURN_IF_ERROR(line.AwaitOpen());
//   RETURN_IF_ERROR(line.Start(operation));   // on the current stream
//   RETURN_IF_ERROR(line.Check());            // now and then
//
// NCCL never waits in a call of this thread (its communicators are not blocking): what it has not finished is asked for
// until the deadline. An event behind each collective says whether it has ended. After an error the line can only be
// given up (Abort); the destructor does neither, as two lines must be given up together.
#ifndef REPRISE_COLLECTIVES_NCCL_NCCL_LINE_H_
#define REPRISE_COLLECTIVES_NCCL_NCCL_LINE_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/nccl/nccl_api.h"
#include "collectives/operation.h"
#include "device/cuda/handles.h"

namespace reprise::cuda {

class NcclLine {
 public:
  NcclLine(const NcclApi& nccl, Sequence sequence, int rank, int ranks, double deadline_seconds)
      : nccl_(nccl), sequence_(sequence), rank_(rank), ranks_(ranks), deadline_seconds_(deadline_seconds) {}

  // The first starts to meet the other ranks and does not wait for them.
  absl::Status Open(const ncclUniqueId& id);
  absl::Status AwaitOpen();

  // Takes the next number of the sequence. `scratch`: one double of this line, zero, on the device, for barriers.
  absl::Status Start(Operation operation, double* scratch);
  bool full() const { return under_way_ == static_cast<int>(ring_.size()); }
  bool empty() const { return under_way_ == 0; }

  // Forgets what has ended. An error where NCCL has found one, or the oldest collective is overdue.
  absl::Status Check();

  // Ends the communicator together with the other ranks', within `seconds`; else it must be given up.
  absl::Status Close(double seconds);
  // Between GroupStart and GroupEnd. Ends kernels that wait for other ranks.
  void Abort();

  void StartNumbersAnew() { next_number_ = 0; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Pending {
    EventHandle end;
    Operation operation;
  };

  absl::Status MakeEvents();
  ncclResult_t Submit(const Operation& operation, double* scratch, cudaStream_t stream) const;
  // Waits until NCCL is through with what it answered `result` to. `what` begins the sentence of an error.
  absl::Status Settle(ncclResult_t result, double seconds, const std::function<std::string()>& what) const;
  absl::Status ForgetWhatHasEnded();
  std::string Name(const Operation& operation) const;  // "rank 1: all-gather of ..."
  std::string Name() const;                            // "rank 1: NCCL's communicator of the gather sequence"
  const Pending& oldest() const { return ring_[static_cast<size_t>(oldest_)]; }

  const NcclApi& nccl_;
  const Sequence sequence_;
  const int rank_;
  const int ranks_;
  const double deadline_seconds_;
  ncclComm_t communicator_ = nullptr;
  std::vector<Pending> ring_;
  int oldest_ = 0;
  int under_way_ = 0;
  int64_t next_number_ = 0;
  Clock::time_point oldest_since_;  // when all before the oldest was seen to have ended
};

}  // namespace reprise::cuda

#endif  // REPRISE_COLLECTIVES_NCCL_NCCL_LINE_H_
