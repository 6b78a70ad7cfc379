#include "collectives/mpi/shared_link.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "collectives/chunk_copy.h"

namespace reprise {
namespace {

std::vector<int> AllBut(const std::vector<int>& ranks, int index) {
  std::vector<int> others = ranks;
  others.erase(others.begin() + index);
  return others;
}

}  // namespace

SharedLink::SharedLink(const SharedMemory& memory, Sequence sequence, const std::vector<int>& local_ranks,
                       int local_rank)
    : Link(AllBut(local_ranks, local_rank)), local_rank_(local_rank), own_(memory.Lane(local_rank, sequence)) {
  for (int rank = 0; rank < static_cast<int>(local_ranks.size()); ++rank) {
    if (rank != local_rank) local_.push_back({memory.Lane(rank, sequence), rank, memory.Process(rank)});
  }
}

absl::Status SharedLink::SendHeader(const OperationHeader& header) {
  transfer_ = nullptr;
  number_ = header.number;
  SharedLane& lane = own_.lane();
  lane.header[static_cast<size_t>(number_ % 2)] = header;
  lane.headers.value.store(number_ + 1, std::memory_order_release);
  return absl::OkStatus();
}

const OperationHeader* SharedLink::PeerHeader(size_t peer) const {
  const SharedLane& lane = local_[peer].lane.lane();
  if (lane.headers.value.load(std::memory_order_acquire) <= number_) return nullptr;
  return &lane.header[static_cast<size_t>(number_ % 2)];
}

void SharedLink::Begin(const Transfer* transfer) {
  before_ += published_;
  for (Peer& peer : local_) peer.before += peer.taken;
  transfer_ = transfer;
  published_ = 0;
  rounds_out_ = transfer->SentBy(transfer->rank()) ? transfer->rounds() : 0;
  for (Peer& peer : local_) peer.taken = 0;
}

int64_t SharedLink::RoundsFrom(size_t peer) const { return transfer_->SentBy(peers()[peer]) ? transfer_->rounds() : 0; }

int64_t SharedLink::OffsetFor(int writer, int reader) const {
  if (transfer_->same_for_all()) return 0;
  return (reader < writer ? reader : reader - 1) * transfer_->chunk_bytes();
}

absl::Status SharedLink::Advance(bool* moved) {
  if (transfer_ == nullptr) return absl::OkStatus();
  if (Publish()) *moved = true;
  if (transfer_->folds()) return absl::OkStatus();
  // Each rank begins with the one after it, so that they do not all read the same slot at once.
  for (size_t i = 0; i < local_.size(); ++i) {
    if (TakeOne((i + static_cast<size_t>(local_rank_)) % local_.size())) *moved = true;
  }
  return absl::OkStatus();
}

bool SharedLink::Publish() {
  if (published_ == rounds_out_) return false;
  const int64_t chunk = before_ + published_;
  for (const Peer& peer : local_) {
    if (own_.consumed(peer.local_rank).load(std::memory_order_acquire) + kSlots <= chunk) return false;
  }
  std::byte* slot = own_.slot(chunk);
  const int64_t length = transfer_->Length(published_);
  if (transfer_->same_for_all()) {
    CopyChunk(slot, transfer_->Outgoing(transfer_->rank(), published_), length);
  } else {
    for (size_t i = 0; i < local_.size(); ++i) {
      CopyChunk(slot + OffsetFor(local_rank_, local_[i].local_rank), transfer_->Outgoing(peers()[i], published_),
                length);
    }
  }
  ++published_;
  own_.lane().published.value.store(chunk + 1, std::memory_order_release);
  return true;
}

int64_t SharedLink::Available(size_t peer) const {
  const Peer& from = local_[peer];
  const int64_t published = from.lane.lane().published.value.load(std::memory_order_acquire) - from.before;
  // The peer may be in its next operation already.
  return std::min(published, RoundsFrom(peer));
}

bool SharedLink::TakeOne(size_t index) {
  Peer& peer = local_[index];
  if (peer.taken >= Available(index)) return false;
  CopyChunk(transfer_->Destination(peers()[index], peer.taken), Staged(index, peer.taken),
            transfer_->Length(peer.taken));
  ++peer.taken;
  peer.lane.consumed(local_rank_).store(peer.before + peer.taken, std::memory_order_release);
  return true;
}

const std::byte* SharedLink::Staged(size_t peer, int64_t round) const {
  const Peer& from = local_[peer];
  return from.lane.slot(from.before + round) + OffsetFor(from.local_rank, local_rank_);
}

void SharedLink::Release(int64_t rounds) {
  for (Peer& peer : local_) {
    peer.taken = rounds;
    peer.lane.consumed(local_rank_).store(peer.before + peer.taken, std::memory_order_release);
  }
}

bool SharedLink::Finished() const {
  if (transfer_ == nullptr || published_ < rounds_out_) return false;
  for (size_t i = 0; i < local_.size(); ++i) {
    if (local_[i].taken < RoundsFrom(i)) return false;
  }
  return true;
}

absl::Status SharedLink::CheckPeers() const {
  for (size_t i = 0; i < local_.size(); ++i) {
    if (local_[i].process != 0 && kill(local_[i].process, 0) != 0 && errno == ESRCH) {
      return absl::UnavailableError(absl::StrCat("rank ", peers()[i], " (process ", local_[i].process, ") is gone"));
    }
  }
  return absl::OkStatus();
}

}  // namespace reprise
