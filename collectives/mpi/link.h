// Link: this rank's way to a set of others, for one sequence. By messages, or through memory that they share.
//
//   link.SendHeader(header);            // once an operation; then Advance until PeerHeader(i) stands for all
//   link.Begin(transfer);               // then Advance until Finished()
//
// Called by the thread that owns MPI only. No call waits; each moves at most about a chunk a peer, so that the other
// sequence gets its turn. Nothing is allocated after construction, except for errors.
#ifndef REPRISE_COLLECTIVES_MPI_LINK_H_
#define REPRISE_COLLECTIVES_MPI_LINK_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/mpi/transfer.h"
#include "collectives/operation.h"

namespace reprise {

class Link {
 public:
  explicit Link(std::vector<int> peers) : peers_(std::move(peers)) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // The ranks at the other end; functions below take an index into this.
  const std::vector<int>& peers() const { return peers_; }

  virtual absl::Status SendHeader(const OperationHeader& header) = 0;
  // Null until the peer has started its operation of the same number.
  virtual const OperationHeader* PeerHeader(size_t peer) const = 0;

  // Starts the data of the operation; `transfer` outlives it.
  virtual void Begin(const Transfer* transfer) = 0;
  // Moves what can be moved; sets *moved if anything was.
  virtual absl::Status Advance(bool* moved) = 0;
  // Nothing of the operation is left to do, its header included.
  virtual bool Finished() const = 0;
  // Rounds from the first one on that are here from the peer.
  virtual int64_t Available(size_t peer) const = 0;
  // Rounds from the first one on whose chunks this rank's memory no longer needs to keep.
  virtual int64_t Sent() const = 0;

  // For operations that fold: a round's chunk, while Available and not released.
  virtual const std::byte* Staged(size_t peer, int64_t round) const = 0;
  // The first `rounds` rounds are summed: their staging may be used again.
  virtual void Release(int64_t rounds) = 0;

  // Unavailable if a peer's process is known to be gone.
  virtual absl::Status CheckPeers() const = 0;

  // Staging that this rank holds.
  virtual int64_t overhead_bytes() const = 0;

 private:
  const std::vector<int> peers_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_LINK_H_
