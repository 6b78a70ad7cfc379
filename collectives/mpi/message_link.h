// MessageLink: a Link by MPI messages, for ranks of other hosts (or of this one where memory cannot be shared).
//
// Chunks are received where they belong, or in fixed staging if they are to be summed. Up to kDepth chunks are in
// flight to and from each rank; ranks advance independently of each other.
#ifndef REPRISE_COLLECTIVES_MPI_MESSAGE_LINK_H_
#define REPRISE_COLLECTIVES_MPI_MESSAGE_LINK_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/mpi/link.h"
#include "collectives/mpi/mpi_api.h"

namespace reprise {

class MessageLink : public Link {
 public:
  // `communicator` carries this sequence's messages and no others; `staged_bytes` is the largest chunk to be summed.
  MessageLink(MPI_Comm communicator, std::vector<int> peers, int64_t staged_bytes);

  absl::Status SendHeader(const OperationHeader& header) override;
  const OperationHeader* PeerHeader(size_t peer) const override;
  void Begin(const Transfer* transfer) override;
  absl::Status Advance(bool* moved) override;
  bool Finished() const override;
  int64_t Available(size_t peer) const override { return peers_state_[peer].available; }
  int64_t Sent() const override;
  const std::byte* Staged(size_t peer, int64_t round) const override;
  void Release(int64_t rounds) override { released_ = rounds; }
  absl::Status CheckPeers() const override { return absl::OkStatus(); }
  int64_t overhead_bytes() const override;

 private:
  // Requests stand in groups, each with one for every peer.
  enum Group : int { kHeaderOut, kHeaderIn, kSend, kReceive = kSend + kDepth, kGroups = kReceive + kDepth };

  struct Peer {
    OperationHeader header;
    bool header_here = false;
    int64_t next_send = 0;
    int64_t sent = 0;
    int64_t next_receive = 0;
    int64_t available = 0;
    std::array<bool, kDepth> sent_slot = {};      // sent, but an earlier one is not
    std::array<bool, kDepth> received_slot = {};  // here, but an earlier one is not
  };

  MPI_Request& Request(int group, size_t peer) { return requests_[static_cast<size_t>(group) * peers().size() + peer]; }
  std::byte* Staging(size_t peer, int64_t round);
  int64_t RoundsFrom(size_t peer) const { return transfer_->SentBy(peers()[peer]) ? transfer_->rounds() : 0; }
  absl::Status Test(bool* moved);
  void Complete(int group, size_t peer);
  absl::Status PostReceives(size_t peer);
  absl::Status PostSends(size_t peer);
  absl::Status Failed(int code, size_t peer, const char* what) const;

  const MPI_Comm communicator_;
  const int64_t staged_bytes_;
  OperationHeader header_;
  std::vector<Peer> peers_state_;
  std::vector<MPI_Request> requests_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::byte> staging_;
  const Transfer* transfer_ = nullptr;
  int64_t rounds_out_ = 0;
  int64_t released_ = 0;
  int in_flight_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_MESSAGE_LINK_H_
