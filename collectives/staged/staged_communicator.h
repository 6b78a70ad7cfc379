// The communicator `staged`: collectives on the memory of CUDA devices through memory of the host and another
// communicator, `mpi` or `local`. For ranks that share a GPU, which NCCL refuses, and for a rank that is alone.
//
//   ASSIGN_OR_RETURN(auto communicator, MakeStagedCommunicator(ranks, {}));
//   communicator->ReduceScatter(...);          // inside a Work: on its stream
//
// A call copies to the host, waits for the stream, waits for the collective of `ranks`, and starts the copy back: when
// it returns, `done` is finished, and what stands behind it on the stream finds the result. So one collective follows
// the other, which cannot deadlock as long as every rank makes its calls in one order: the schedule's. Sums have the
// bits of `ranks`. A rank alone copies nothing but its own sum.
//
// Buffers go through two blocks of page-locked memory, in pieces. For the issuing thread.
#ifndef REPRISE_COLLECTIVES_STAGED_STAGED_COMMUNICATOR_H_
#define REPRISE_COLLECTIVES_STAGED_STAGED_COMMUNICATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace reprise::cuda {

struct StagedOptions {
  int64_t piece_bytes = int64_t{16} << 20;  // of all ranks together; at least 128 a rank are taken
};

// `ranks` must outlive it. ResourceExhausted where the system gives no page-locked memory.
absl::StatusOr<std::unique_ptr<Communicator>> MakeStagedCommunicator(Communicator& ranks, const StagedOptions& options);

}  // namespace reprise::cuda

#endif  // REPRISE_COLLECTIVES_STAGED_STAGED_COMMUNICATOR_H_
