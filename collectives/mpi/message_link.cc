#include "collectives/mpi/message_link.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr int kHeaderTag = 0;
constexpr int kDataTag = 1;

// Moves `count` up over the slots of the following rounds that are done already.
void PassDoneSlots(std::array<bool, kDepth>& slots, int64_t& count) {
  for (auto* slot = &slots[static_cast<size_t>(count % kDepth)]; *slot;
       slot = &slots[static_cast<size_t>(count % kDepth)]) {
    *slot = false;
    ++count;
  }
}

}  // namespace

MessageLink::MessageLink(MPI_Comm communicator, std::vector<int> peers, int64_t staged_bytes)
    : Link(std::move(peers)), communicator_(communicator), staged_bytes_(staged_bytes) {
  const size_t count = this->peers().size();
  peers_state_.resize(count);
  requests_.resize(count * kGroups, MPI_REQUEST_NULL);
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  staging_.resize(count * kDepth * static_cast<size_t>(staged_bytes));
}

int64_t MessageLink::overhead_bytes() const {
  return static_cast<int64_t>(staging_.size() + peers().size() * sizeof(Peer) +
                              requests_.size() * (sizeof(MPI_Request) + sizeof(int) + sizeof(MPI_Status)));
}

absl::Status MessageLink::Failed(int code, size_t peer, const char* what) const {
  return MpiStatus(code, absl::StrCat(what, " rank ", peers()[peer]));
}

absl::Status MessageLink::SendHeader(const OperationHeader& header) {
  header_ = header;
  transfer_ = nullptr;
  for (size_t peer = 0; peer < peers().size(); ++peer) {
    peers_state_[peer].header_here = false;
    const int code = MPI_Irecv(&peers_state_[peer].header, sizeof(OperationHeader), MPI_BYTE, peers()[peer], kHeaderTag,
                               communicator_, &Request(kHeaderIn, peer));
    if (code != MPI_SUCCESS) return Failed(code, peer, "receiving from");
    ++in_flight_;
  }
  for (size_t peer = 0; peer < peers().size(); ++peer) {
    const int code = MPI_Isend(&header_, sizeof(OperationHeader), MPI_BYTE, peers()[peer], kHeaderTag, communicator_,
                               &Request(kHeaderOut, peer));
    if (code != MPI_SUCCESS) return Failed(code, peer, "sending to");
    ++in_flight_;
  }
  return absl::OkStatus();
}

const OperationHeader* MessageLink::PeerHeader(size_t peer) const {
  return peers_state_[peer].header_here ? &peers_state_[peer].header : nullptr;
}

void MessageLink::Begin(const Transfer* transfer) {
  transfer_ = transfer;
  rounds_out_ = transfer->SentBy(transfer->rank()) ? transfer->rounds() : 0;
  released_ = 0;
  for (Peer& peer : peers_state_) {
    peer.next_send = peer.sent = peer.next_receive = peer.available = 0;
  }
}

absl::Status MessageLink::Advance(bool* moved) {
  if (in_flight_ > 0) RETURN_IF_ERROR(Test(moved));
  if (transfer_ == nullptr) return absl::OkStatus();
  // Receives first: a chunk that finds its receive posted is not copied twice.
  for (size_t peer = 0; peer < peers().size(); ++peer) RETURN_IF_ERROR(PostReceives(peer));
  for (size_t peer = 0; peer < peers().size(); ++peer) RETURN_IF_ERROR(PostSends(peer));
  return absl::OkStatus();
}

absl::Status MessageLink::Test(bool* moved) {
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return MpiStatus(code, "testing transfers");
  if (count == MPI_UNDEFINED) return absl::OkStatus();
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
    const size_t peer = index % peers().size();
    const int error = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[static_cast<size_t>(i)].MPI_ERROR;
    if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) return Failed(error, peer, "a transfer with");
    Complete(static_cast<int>(index / peers().size()), peer);
    --in_flight_;
    *moved = true;
  }
  return absl::OkStatus();
}

void MessageLink::Complete(int group, size_t peer) {
  Peer& state = peers_state_[peer];
  if (group == kHeaderIn) state.header_here = true;
  if (group >= kReceive) {
    state.received_slot[static_cast<size_t>(group - kReceive)] = true;
    PassDoneSlots(state.received_slot, state.available);
  } else if (group >= kSend) {
    state.sent_slot[static_cast<size_t>(group - kSend)] = true;
    PassDoneSlots(state.sent_slot, state.sent);
  }
}

absl::Status MessageLink::PostReceives(size_t peer) {
  Peer& state = peers_state_[peer];
  const int64_t kept = transfer_->folds() ? released_ : state.available;
  const int64_t end = std::min(RoundsFrom(peer), kept + kDepth);
  for (; state.next_receive < end; ++state.next_receive, ++in_flight_) {
    const int64_t round = state.next_receive;
    std::byte* to = transfer_->folds() ? Staging(peer, round) : transfer_->Destination(peers()[peer], round);
    const int code = MPI_Irecv(to, static_cast<int>(transfer_->Length(round)), MPI_BYTE, peers()[peer], kDataTag,
                               communicator_, &Request(kReceive + static_cast<int>(round % kDepth), peer));
    if (code != MPI_SUCCESS) return Failed(code, peer, "receiving from");
  }
  return absl::OkStatus();
}

absl::Status MessageLink::PostSends(size_t peer) {
  Peer& state = peers_state_[peer];
  const int64_t end = std::min(rounds_out_, state.sent + kDepth);
  for (; state.next_send < end; ++state.next_send, ++in_flight_) {
    const int64_t round = state.next_send;
    const int code =
        MPI_Isend(transfer_->Outgoing(peers()[peer], round), static_cast<int>(transfer_->Length(round)), MPI_BYTE,
                  peers()[peer], kDataTag, communicator_, &Request(kSend + static_cast<int>(round % kDepth), peer));
    if (code != MPI_SUCCESS) return Failed(code, peer, "sending to");
  }
  return absl::OkStatus();
}

std::byte* MessageLink::Staging(size_t peer, int64_t round) {
  const auto slot = static_cast<size_t>(round % kDepth);
  return staging_.data() + (peer * kDepth + slot) * static_cast<size_t>(staged_bytes_);
}

const std::byte* MessageLink::Staged(size_t peer, int64_t round) const {
  const auto slot = static_cast<size_t>(round % kDepth);
  return staging_.data() + (peer * kDepth + slot) * static_cast<size_t>(staged_bytes_);
}

int64_t MessageLink::Sent() const {
  int64_t sent = rounds_out_;
  for (const Peer& peer : peers_state_) sent = std::min(sent, peer.sent);
  return sent;
}

bool MessageLink::Finished() const {
  if (in_flight_ > 0 || transfer_ == nullptr || Sent() < rounds_out_) return false;
  for (size_t peer = 0; peer < peers().size(); ++peer) {
    if (peers_state_[peer].available < RoundsFrom(peer)) return false;
  }
  return true;
}

}  // namespace reprise
