// Operation: one call of one rank, as the backends queue, compare and name it.
//
// A backend derives from OperationCommunicator, which checks the arguments and turns the five calls into one: Submit.
//
//   void MyCommunicator::Submit(const Operation& operation) { ... operation.done->Finish(status); }
//
// An OperationHeader is what a rank tells the others of its operation, so that ranks whose n-th calls differ find out
// and say so. It is plain bytes: it can be sent as a message and stand in shared memory.
#ifndef REPRISE_COLLECTIVES_OPERATION_H_
#define REPRISE_COLLECTIVES_OPERATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace reprise {

// Calls of one sequence that a rank may have in flight.
inline constexpr int kMaximumPending = 256;

enum class CollectiveKind : int32_t { kAllGather, kReduceScatter, kAllReduce, kBroadcast, kBarrier };

struct Operation {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Sequence sequence = Sequence::kGather;
  const char* label = "";
  int64_t bytes = 0;             // a shard of all-gather and reduce-scatter; all values of the others
  int root = 0;                  // of a broadcast
  bool accumulate = false;       // of a reduce-scatter
  std::byte* data = nullptr;     // whole of all-gather, values of all-reduce, bytes of broadcast
  const float* whole = nullptr;  // of a reduce-scatter
  float* shard = nullptr;        // of a reduce-scatter
  Completion* done = nullptr;
  int64_t number = 0;  // of the call in its sequence on this rank, from 0; set by the backend
};

struct OperationHeader {
  int64_t number = 0;
  int64_t bytes = 0;
  uint64_t label_hash = 0;  // of the whole label
  CollectiveKind kind = CollectiveKind::kBarrier;
  int32_t root = 0;
  std::array<char, 96> label = {};  // its beginning, ended by a zero
};
static_assert(sizeof(OperationHeader) == 128);

OperationHeader HeaderOf(const Operation& operation);

// Whether two ranks' calls belong together.
bool Matches(const OperationHeader& a, const OperationHeader& b);

// "all-gather of 'h.3' (4096 bytes a rank)".
std::string Describe(const OperationHeader& header);

// "all-gather of 'h.3' (4096 bytes a rank), number 7 of the gather sequence".
std::string DescribeInSequence(const Operation& operation);

// Aborted, naming both ranks, both collectives and the sequence number.
absl::Status MismatchError(Sequence sequence, int rank, const OperationHeader& mine, int peer,
                           const OperationHeader& theirs);

// "rank 1", "ranks 1 and 3", "ranks 1, 2 and 5".
std::string NameRanks(absl::Span<const int> ranks);

// Unavailable: more than kMaximumPending calls in flight.
absl::Status TooManyPendingError(int rank, const Operation& operation);

class OperationCommunicator : public Communicator {
 public:
  void AllGather(Sequence sequence, const AllGatherArguments& arguments, Completion* done) override;
  void ReduceScatter(Sequence sequence, const ReduceScatterArguments& arguments, Completion* done) override;
  void AllReduce(Sequence sequence, const char* label, absl::Span<double> values, Completion* done) override;
  void Broadcast(Sequence sequence, const char* label, absl::Span<std::byte> bytes, int root,
                 Completion* done) override;
  void Barrier(Sequence sequence, Completion* done) override;

 protected:
  // Starts the operation; its `done` is finished exactly once.
  virtual void Submit(const Operation& operation) = 0;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_OPERATION_H_
