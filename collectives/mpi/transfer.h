// Transfer: one operation cut into rounds of chunks, as the links to other ranks see it.
//
// In every round each rank that sends gives each other rank one chunk. Where the operation sums (`folds`), chunks are
// staged by the link until all ranks' chunks of the round are there; otherwise they go straight to their destination.
#ifndef REPRISE_COLLECTIVES_MPI_TRANSFER_H_
#define REPRISE_COLLECTIVES_MPI_TRANSFER_H_

#include <cstddef>
#include <cstdint>

#include "collectives/operation.h"

namespace reprise {

// Chunks in flight to and from each rank.
inline constexpr int kDepth = 2;

// Largest chunk of each kind; the same on all ranks.
struct ChunkBytes {
  int64_t direct = 0;   // all-gather, broadcast
  int64_t same = 0;     // all-reduce: staged, one for all receivers
  int64_t scatter = 0;  // reduce-scatter: staged, another one for each receiver
};

class Transfer {
 public:
  Transfer() = default;
  Transfer(const Operation& operation, int rank, const ChunkBytes& chunks);

  const Operation& operation() const { return operation_; }
  int rank() const { return rank_; }
  int64_t rounds() const { return rounds_; }
  // Bytes between two receivers' chunks where each has its own.
  int64_t chunk_bytes() const { return chunk_bytes_; }
  bool folds() const { return folds_; }
  bool same_for_all() const { return operation_.kind != CollectiveKind::kReduceScatter; }
  bool SentBy(int rank) const { return operation_.kind != CollectiveKind::kBroadcast || operation_.root == rank; }

  int64_t Offset(int64_t round) const { return round * chunk_bytes_; }
  int64_t Length(int64_t round) const;

  // Where this rank's chunk for `peer` stands. `peer` may be this rank itself: its own part of a sum.
  const std::byte* Outgoing(int peer, int64_t round) const;

  // Where `peer`'s chunk goes; not for operations that fold.
  std::byte* Destination(int peer, int64_t round) const;

 private:
  Operation operation_;
  int rank_ = 0;
  bool folds_ = false;
  int64_t chunk_bytes_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_TRANSFER_H_
