// SharedLink: a Link to the ranks of this host through SharedMemory.
//
// All-gather and broadcast copy a chunk into this rank's slot once, for all, and out of the others' slots. A
// reduce-scatter lays the other ranks' parts side by side in a slot, and they are summed where they stand.
#ifndef REPRISE_COLLECTIVES_MPI_SHARED_LINK_H_
#define REPRISE_COLLECTIVES_MPI_SHARED_LINK_H_

#include <cstdint>
#include <vector>

#include "collectives/mpi/link.h"
#include "collectives/mpi/shared_memory.h"

namespace reprise {

class SharedLink : public Link {
 public:
  // `local_ranks` are the global ranks of this host, in local order; `memory` outlives the link.
  SharedLink(const SharedMemory& memory, Sequence sequence, const std::vector<int>& local_ranks, int local_rank);

  absl::Status SendHeader(const OperationHeader& header) override;
  const OperationHeader* PeerHeader(size_t peer) const override;
  void Begin(const Transfer* transfer) override;
  absl::Status Advance(bool* moved) override;
  bool Finished() const override;
  int64_t Available(size_t peer) const override;
  int64_t Sent() const override { return published_; }
  const std::byte* Staged(size_t peer, int64_t round) const override;
  void Release(int64_t rounds) override;
  absl::Status CheckPeers() const override;
  int64_t overhead_bytes() const override { return LaneView::Bytes(static_cast<int>(peers().size()) + 1); }

 private:
  struct Peer {
    LaneView lane;
    int local_rank;
    int process;         // 0: not known
    int64_t before = 0;  // chunks that it had published before this operation
    int64_t taken = 0;   // rounds of this operation
  };

  // Where local rank `reader` finds its chunk in the slot of local rank `writer`.
  int64_t OffsetFor(int writer, int reader) const;
  int64_t RoundsFrom(size_t peer) const;
  bool Publish();
  bool TakeOne(size_t index);

  const int local_rank_;
  const LaneView own_;
  std::vector<Peer> local_;
  int64_t number_ = 0;
  const Transfer* transfer_ = nullptr;
  int64_t rounds_out_ = 0;
  int64_t before_ = 0;     // chunks that this rank had published before this operation
  int64_t published_ = 0;  // rounds of this operation
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_SHARED_LINK_H_
