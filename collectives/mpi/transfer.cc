#include "collectives/mpi/transfer.h"

#include <algorithm>

#include "base/check.h"

namespace reprise {

Transfer::Transfer(const Operation& operation, int rank, const ChunkBytes& chunks)
    : operation_(operation), rank_(rank) {
  switch (operation.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBarrier:
      chunk_bytes_ = chunks.direct;
      break;
    case CollectiveKind::kAllReduce:
      chunk_bytes_ = chunks.same;
      folds_ = true;
      break;
    case CollectiveKind::kReduceScatter:
      chunk_bytes_ = chunks.scatter;
      folds_ = true;
      break;
  }
  rounds_ = operation.bytes / chunk_bytes_ + (operation.bytes % chunk_bytes_ > 0 ? 1 : 0);
}

int64_t Transfer::Length(int64_t round) const { return std::min(chunk_bytes_, operation_.bytes - Offset(round)); }

const std::byte* Transfer::Outgoing(int peer, int64_t round) const {
  if (operation_.kind == CollectiveKind::kReduceScatter) {
    return reinterpret_cast<const std::byte*>(operation_.whole) + peer * operation_.bytes + Offset(round);
  }
  const int64_t own = operation_.kind == CollectiveKind::kAllGather ? rank_ * operation_.bytes : 0;
  return operation_.data + own + Offset(round);
}

std::byte* Transfer::Destination(int peer, int64_t round) const {
  REPRISE_CHECK(!folds_) << "a sum's chunk has no destination";
  const int64_t part = operation_.kind == CollectiveKind::kAllGather ? peer * operation_.bytes : 0;
  return operation_.data + part + Offset(round);
}

}  // namespace reprise
