// The communicator `nccl`: collectives on the memory of CUDA devices, for ranks with a GPU each.
//
//   ASSIGN_OR_RETURN(auto communicator, MakeNcclCommunicator(ranks, {.deadline_seconds = 300}));
//   communicator->AllGather(...);                // inside a Work: on its stream
//   device.SetMonitor([&] { return communicator->Check(); });
//
// Inside a Work a call starts its collective on the current stream (device/cuda/current_stream.h) and finishes `done`
// at once, with OK where the start went well: what stands behind it on the stream finds the result, and nothing else
// may read it. Whether it ever ends is Check's to say. Outside a Work a call uses a stream of its own and returns when
// the collective has ended.
//
// The two sequences are two communicators of NCCL. Two kernels that wait for their peers can deadlock where ranks start
// them in different orders; so every rank makes its calls, of both sequences, in one order: the schedule's. Ranks whose
// calls differ are not found out as by the other backends: they end at the deadline, or with wrong data, which is why a
// job compares its schedules first.
//
// Sums are in float32, in the order of NCCL's ring (NCCL_ALGO in the environment: another algorithm, other bits): the
// same bits for the same ranks, GPUs and sizes, not those of the other backends.
//
// For the issuing thread, Check too.
#ifndef REPRISE_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
#define REPRISE_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/over_ranks.h"

namespace reprise::cuda {

class NcclCommunicator : public OverRanks {
 public:
  using OverRanks::OverRanks;

  // To be asked while the host waits for the end of a step. Unavailable where NCCL has found an error, DeadlineExceeded
  // where the oldest collective that has not ended is overdue: one sentence with rank, collective, label and sequence
  // number. Then all that is under way is given up, so that its streams end, and every later call fails at once.
  virtual absl::Status Check() = 0;
};

// Collective over `ranks`, which carries NCCL's ids and must outlive what is returned; the device of this thread is the
// rank's. Each rank needs a device of its own. All ranks return the same error: InvalidArgument where a rank lacks
// NCCL, Unavailable for errors of NCCL, DeadlineExceeded where its ranks do not meet. The end waits for nobody for
// long: a communicator with collectives under way, or that has failed, is given up.
absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNcclCommunicator(Communicator& ranks,
                                                                       const CommunicatorOptions& options);

}  // namespace reprise::cuda

#endif  // REPRISE_COLLECTIVES_NCCL_NCCL_COMMUNICATOR_H_
