// Communicator: the seam between ranks. All-gather, reduce-scatter, all-reduce, broadcast, barrier.
//
// Every call starts one collective and returns; `done` is finished when this rank's part is complete (its outputs may
// be read, its inputs overwritten). The collectives of one Sequence are matched between ranks in the order of their
// calls; the two sequences are independent of each other, so that gathers and reductions may be started in different
// orders on different ranks without a deadlock.
//
//   Completion done;
//   communicator.ReduceScatter(Sequence::kReduce, {"h.3", whole, shard, count, Accumulate::kAdd}, &done);
//   RETURN_IF_ERROR(done.Wait());
//
// Sums are taken in rank order in float32 (((g0 + g1) + g2) + ...), so every backend gives the same bits, but for NCCL,
// whose ring has an order of its own. Those on the memory of GPUs finish `done` when the collective has been started on
// its stream: what stands behind it there finds the result (collectives/nccl, collectives/staged). Counts and bytes are
// 64-bit. Nothing is allocated after construction. Every wait has a deadline: passing it, or ranks whose collectives do
// not match, finishes `done` with an error that names rank, collective, label and sequence number. A communicator that
// failed once fails every later call at once.
// Thread-safe; calls of one sequence must come from one thread at a time.
#ifndef REPRISE_COLLECTIVES_COMMUNICATOR_H_
#define REPRISE_COLLECTIVES_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/completion.h"

namespace reprise {

enum class Sequence : uint8_t { kGather, kReduce };
inline constexpr int kSequenceCount = 2;

struct AllGatherArguments {
  const char* label = "";      // what is gathered, for messages; must outlive the collective
  std::byte* whole = nullptr;  // size() * shard_bytes; this rank's part already stands at rank() * shard_bytes
  int64_t shard_bytes = 0;     // equal on all ranks
};

struct ReduceScatterArguments {
  const char* label = "";
  const float* whole = nullptr;  // size() * shard_elements; undefined after it in this rank's own part
  float* shard = nullptr;        // shard_elements; may be this rank's own part of `whole` unless it accumulates
  int64_t shard_elements = 0;    // equal on all ranks
  bool accumulate = false;       // shard = shard + sum, else shard = sum
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  virtual std::vector<std::string> hosts() const = 0;  // distinct host names, in rank order

  virtual void AllGather(Sequence sequence, const AllGatherArguments& arguments, Completion* done) = 0;
  virtual void ReduceScatter(Sequence sequence, const ReduceScatterArguments& arguments, Completion* done) = 0;

  // In place on every rank, in rank order. For scalars and other small things.
  virtual void AllReduce(Sequence sequence, const char* label, absl::Span<double> values, Completion* done) = 0;
  virtual void Broadcast(Sequence sequence, const char* label, absl::Span<std::byte> bytes, int root,
                         Completion* done) = 0;
  virtual void Barrier(Sequence sequence, Completion* done) = 0;

  // Bytes that the backend itself holds (staging, queues), on this rank.
  virtual int64_t overhead_bytes() const = 0;

  // Ends every rank as soon as may be, with this exit code (see README.md). Does not return.
  [[noreturn]] virtual void Abort(int exit_code) = 0;
};

// Blocking forms, for what is not in a step.
absl::Status Barrier(Communicator& communicator);
absl::Status AllReduce(Communicator& communicator, const char* label, absl::Span<double> values);
absl::Status Broadcast(Communicator& communicator, const char* label, absl::Span<std::byte> bytes, int root);
// Each rank's text, in rank order, on every rank.
absl::StatusOr<std::vector<std::string>> AllGatherText(Communicator& communicator, const std::string& text);
// Each rank gives its own outcome; all return the first error in rank order, or OK if every rank is OK.
absl::Status Agree(Communicator& communicator, const absl::Status& status);

struct CommunicatorOptions {
  double deadline_seconds = 300;
};

// `mpi`: ranks as processes. Initialises MPI (its own thread owns MPI: starts, tests, sleeps) and ends it when
// destroyed.
absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(const CommunicatorOptions& options);

// `local`: `size` ranks as threads of this process, for tests; communicator i is for rank i's threads.
std::vector<std::unique_ptr<Communicator>> MakeLocalCommunicators(int size, const CommunicatorOptions& options);

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_COMMUNICATOR_H_
