// Exchange: one sequence's operation in progress, over all links of this rank.
//
//   exchange.Start(operation);
//   while (!exchange.finished()) RETURN_IF_ERROR(exchange.Advance(&moved));   // Aborted: the ranks' calls differ
//
// First the headers are compared, each as it comes; then the data moves, and sums are taken chunk by chunk in rank
// order. Called by the thread that owns MPI only.
#ifndef REPRISE_COLLECTIVES_MPI_EXCHANGE_H_
#define REPRISE_COLLECTIVES_MPI_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "collectives/mpi/link.h"
#include "collectives/mpi/transfer.h"

namespace reprise {

class Exchange {
 public:
  Exchange(int rank, int size, const ChunkBytes& chunks, std::vector<std::unique_ptr<Link>> links);

  bool active() const { return active_; }
  bool finished() const { return active_ && finished_; }
  const Operation& operation() const { return transfer_.operation(); }

  // Not while another operation is active.
  absl::Status Start(const Operation& operation);
  absl::Status Advance(bool* moved);
  void End() { active_ = false; }

  absl::Status CheckPeers() const;
  // DeadlineExceeded, naming the ranks that this one waits for.
  absl::Status DeadlineError(double deadline_seconds) const;
  int64_t overhead_bytes() const;

 private:
  struct Input {
    const Link* link;  // null: this rank itself
    size_t peer;
  };

  absl::Status CompareHeaders(bool* moved);
  void Fold(bool* moved);
  bool FoldReady() const;
  void SumRound();
  std::vector<int> MissingRanks() const;

  const int rank_;
  const ChunkBytes chunks_;
  const std::vector<std::unique_ptr<Link>> links_;
  std::vector<Input> inputs_;                // by rank
  std::vector<std::vector<bool>> compared_;  // by link and peer: the peer has started the same operation
  std::vector<const float*> floats_;
  std::vector<const double*> doubles_;

  Transfer transfer_;
  OperationHeader header_;
  bool active_ = false;
  bool finished_ = false;
  int unmet_ = 0;  // peers whose header has not been compared
  int64_t folded_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_EXCHANGE_H_
