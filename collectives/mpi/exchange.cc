#include "collectives/mpi/exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/ordered_sum.h"

namespace reprise {

Exchange::Exchange(int rank, int size, const ChunkBytes& chunks, std::vector<std::unique_ptr<Link>> links)
    : rank_(rank), chunks_(chunks), links_(std::move(links)) {
  inputs_.resize(static_cast<size_t>(size), {nullptr, 0});
  for (const auto& link : links_) {
    compared_.emplace_back(link->peers().size());
    for (size_t peer = 0; peer < link->peers().size(); ++peer) {
      inputs_[static_cast<size_t>(link->peers()[peer])] = {link.get(), peer};
    }
  }
  floats_.resize(static_cast<size_t>(size));
  doubles_.resize(static_cast<size_t>(size));
}

absl::Status Exchange::Start(const Operation& operation) {
  transfer_ = Transfer(operation, rank_, chunks_);
  header_ = HeaderOf(operation);
  active_ = true;
  finished_ = false;
  folded_ = 0;
  unmet_ = static_cast<int>(inputs_.size()) - 1;
  for (size_t i = 0; i < links_.size(); ++i) {
    std::fill(compared_[i].begin(), compared_[i].end(), false);
    RETURN_IF_ERROR(links_[i]->SendHeader(header_));
  }
  return absl::OkStatus();
}

absl::Status Exchange::Advance(bool* moved) {
  if (!active_ || finished_) return absl::OkStatus();
  for (const auto& link : links_) RETURN_IF_ERROR(link->Advance(moved));
  if (unmet_ > 0) {
    RETURN_IF_ERROR(CompareHeaders(moved));
    if (unmet_ > 0) return absl::OkStatus();
    for (const auto& link : links_) link->Begin(&transfer_);
    *moved = true;
    if (transfer_.rounds() > 0) return absl::OkStatus();
  }
  if (transfer_.folds()) Fold(moved);
  finished_ = !transfer_.folds() || folded_ == transfer_.rounds();
  for (const auto& link : links_) finished_ = finished_ && link->Finished();
  return absl::OkStatus();
}

absl::Status Exchange::CompareHeaders(bool* moved) {
  for (size_t i = 0; i < links_.size(); ++i) {
    const std::vector<int>& peers = links_[i]->peers();
    for (size_t peer = 0; peer < peers.size(); ++peer) {
      if (compared_[i][peer]) continue;
      const OperationHeader* theirs = links_[i]->PeerHeader(peer);
      if (theirs == nullptr) continue;
      if (!Matches(header_, *theirs)) {
        const Sequence sequence = operation().sequence;
        return rank_ < peers[peer] ? MismatchError(sequence, rank_, header_, peers[peer], *theirs)
                                   : MismatchError(sequence, peers[peer], *theirs, rank_, header_);
      }
      compared_[i][peer] = true;
      --unmet_;
      *moved = true;
    }
  }
  return absl::OkStatus();
}

void Exchange::Fold(bool* moved) {
  if (folded_ == transfer_.rounds() || !FoldReady()) return;
  SumRound();
  ++folded_;
  for (const auto& link : links_) link->Release(folded_);
  *moved = true;
}

bool Exchange::FoldReady() const {
  for (const auto& link : links_) {
    // An all-reduce writes over the values that it sends.
    if (operation().kind == CollectiveKind::kAllReduce && link->Sent() <= folded_) return false;
    for (size_t peer = 0; peer < link->peers().size(); ++peer) {
      if (link->Available(peer) <= folded_) return false;
    }
  }
  return true;
}

void Exchange::SumRound() {
  const bool doubles = operation().kind == CollectiveKind::kAllReduce;
  for (size_t rank = 0; rank < inputs_.size(); ++rank) {
    const Input& input = inputs_[rank];
    const std::byte* chunk =
        input.link == nullptr ? transfer_.Outgoing(rank_, folded_) : input.link->Staged(input.peer, folded_);
    if (doubles) {
      doubles_[rank] = reinterpret_cast<const double*>(chunk);
    } else {
      floats_[rank] = reinterpret_cast<const float*>(chunk);
    }
  }
  const int64_t offset = transfer_.Offset(folded_);
  const int64_t length = transfer_.Length(folded_);
  if (doubles) {
    SumInRankOrder(doubles_, length / static_cast<int64_t>(sizeof(double)),
                   reinterpret_cast<double*>(operation().data + offset));
  } else {
    SumInRankOrder(floats_, operation().accumulate, length / static_cast<int64_t>(sizeof(float)),
                   operation().shard + offset / static_cast<int64_t>(sizeof(float)));
  }
}

absl::Status Exchange::CheckPeers() const {
  for (const auto& link : links_) RETURN_IF_ERROR(link->CheckPeers());
  return absl::OkStatus();
}

std::vector<int> Exchange::MissingRanks() const {
  std::vector<int> missing;
  for (size_t i = 0; i < links_.size(); ++i) {
    for (size_t peer = 0; peer < links_[i]->peers().size(); ++peer) {
      const int rank = links_[i]->peers()[peer];
      const bool sends = transfer_.SentBy(rank);
      const bool here = unmet_ > 0 ? bool{compared_[i][peer]}
                                   : !sends || links_[i]->Available(peer) >= std::min(folded_ + 1, transfer_.rounds());
      if (!here) missing.push_back(rank);
    }
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

absl::Status Exchange::DeadlineError(double deadline_seconds) const {
  const std::vector<int> missing = MissingRanks();
  std::string text = absl::StrCat("rank ", rank_, ": ", DescribeInSequence(operation()));
  if (unmet_ > 0) {
    absl::StrAppend(&text, " was not met within ", deadline_seconds, " s by ", NameRanks(missing));
  } else {
    absl::StrAppend(&text, " did not move for ", deadline_seconds, " s");
    if (!missing.empty()) absl::StrAppend(&text, ", waiting for ", NameRanks(missing));
  }
  return absl::DeadlineExceededError(text);
}

int64_t Exchange::overhead_bytes() const {
  int64_t bytes = 0;
  for (const auto& link : links_) bytes += link->overhead_bytes();
  return bytes;
}

}  // namespace reprise
