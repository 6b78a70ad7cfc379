#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/over_ranks.h"
#include "collectives/staged/staged_communicator.h"
#include "device/cuda/add_floats.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/handles.h"
#include "device/cuda/pinned.h"

namespace reprise::cuda {
namespace {

constexpr char kInstead[] = "give each rank a GPU of its own";
constexpr int64_t kLeastPiece = 128;  // bytes of a rank: shards are whole multiples of it

class StagedCommunicator : public OverRanks {
 public:
  StagedCommunicator(Communicator& ranks, int64_t piece, PinnedMemory whole, PinnedMemory own)
      : OverRanks(ranks), piece_(piece), whole_(std::move(whole)), own_(std::move(own)) {}

 protected:
  int64_t own_bytes() const override { return (size() + 1) * piece_; }
  void Submit(const Operation& operation) override {
    if (failure_.ok()) failure_.Update(Run(operation));
    operation.done->Finish(failure_);
  }

 private:
  absl::Status Run(const Operation& o) {
    switch (o.kind) {
      case CollectiveKind::kAllGather:
        return size() == 1 ? absl::OkStatus() : GatherAll(o);
      case CollectiveKind::kReduceScatter:
        return size() == 1 ? TakeOwnSum(o) : ReduceToShards(o);
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kBroadcast:
        return size() == 1 ? absl::OkStatus() : ThroughPieces(o);
      case CollectiveKind::kBarrier:
        break;
    }
    RETURN_IF_ERROR(WaitForStream(o));
    Completion done;
    ranks().Barrier(o.sequence, &done);
    return done.Wait();
  }

  absl::Status GatherAll(const Operation& o) {
    for (int64_t at = 0; at < o.bytes; at += piece_) {
      const int64_t bytes = std::min(piece_, o.bytes - at);
      RETURN_IF_ERROR(Start(o, whole() + rank() * bytes, o.data + rank() * o.bytes + at, bytes));
      RETURN_IF_ERROR(WaitForStream(o));
      Completion done;
      ranks().AllGather(o.sequence, {.label = o.label, .whole = whole(), .shard_bytes = bytes}, &done);
      RETURN_IF_ERROR(done.Wait());
      for (int r = 0; r < size(); ++r) {
        if (r != rank()) RETURN_IF_ERROR(Start(o, o.data + r * o.bytes + at, whole() + r * bytes, bytes));
      }
      RETURN_IF_ERROR(WaitForStream(o));
    }
    return absl::OkStatus();
  }

  absl::Status ReduceToShards(const Operation& o) {
    const auto* from = reinterpret_cast<const std::byte*>(o.whole);
    auto* to = reinterpret_cast<std::byte*>(o.shard);
    for (int64_t at = 0; at < o.bytes; at += piece_) {
      const int64_t bytes = std::min(piece_, o.bytes - at);
      for (int r = 0; r < size(); ++r) RETURN_IF_ERROR(Start(o, whole() + r * bytes, from + r * o.bytes + at, bytes));
      if (o.accumulate) RETURN_IF_ERROR(Start(o, own(), to + at, bytes));
      RETURN_IF_ERROR(WaitForStream(o));
      Completion done;
      ranks().ReduceScatter(o.sequence,
                            {.label = o.label,
                             .whole = reinterpret_cast<const float*>(whole()),
                             .shard = reinterpret_cast<float*>(own()),
                             .shard_elements = bytes / static_cast<int64_t>(sizeof(float)),
                             .accumulate = o.accumulate},
                            &done);
      RETURN_IF_ERROR(done.Wait());
      RETURN_IF_ERROR(Start(o, to + at, own(), bytes));
      RETURN_IF_ERROR(WaitForStream(o));
    }
    return absl::OkStatus();
  }

  // Of a rank that is alone: the sum is its own part.
  absl::Status TakeOwnSum(const Operation& o) {
    if (o.accumulate) {
      AddFloats(o.shard, o.whole, o.bytes / static_cast<int64_t>(sizeof(float)));
      return absl::OkStatus();
    }
    if (o.shard == o.whole) return absl::OkStatus();
    return Start(o, reinterpret_cast<std::byte*>(o.shard), reinterpret_cast<const std::byte*>(o.whole), o.bytes);
  }

  // Those in place: sums of scalars, broadcasts.
  absl::Status ThroughPieces(const Operation& o) {
    for (int64_t at = 0; at < o.bytes; at += piece_) {
      const int64_t bytes = std::min(piece_, o.bytes - at);
      RETURN_IF_ERROR(Start(o, whole(), o.data + at, bytes));
      RETURN_IF_ERROR(WaitForStream(o));
      Completion done;
      if (o.kind == CollectiveKind::kAllReduce) {
        auto* values = reinterpret_cast<double*>(whole());
        ranks().AllReduce(o.sequence, o.label, {values, static_cast<size_t>(bytes) / sizeof(double)}, &done);
      } else {
        ranks().Broadcast(o.sequence, o.label, {whole(), static_cast<size_t>(bytes)}, o.root, &done);
      }
      RETURN_IF_ERROR(done.Wait());
      RETURN_IF_ERROR(Start(o, o.data + at, whole(), bytes));
      RETURN_IF_ERROR(WaitForStream(o));
    }
    return absl::OkStatus();
  }

  absl::Status Start(const Operation& o, std::byte* to, const std::byte* from, int64_t bytes) const {
    return Named(o, StartCopy(to, from, bytes), "start a copy");
  }
  absl::Status WaitForStream(const Operation& o) const {
    return Named(o, cudaStreamSynchronize(static_cast<cudaStream_t>(CurrentStream())), "wait for the stream");
  }
  // Errors of `ranks` name their collective; those of CUDA are given its name here.
  absl::Status Named(const Operation& o, cudaError_t error, const char* action) const {
    if (error == cudaSuccess) return absl::OkStatus();
    const absl::Status status = Call(error, action);
    return absl::Status(status.code(),
                        absl::StrCat("rank ", rank(), ": ", Describe(HeaderOf(o)), ": ", status.message()));
  }

  std::byte* whole() const { return static_cast<std::byte*>(whole_.get()); }
  std::byte* own() const { return static_cast<std::byte*>(own_.get()); }

  const int64_t piece_;  // bytes of a rank
  PinnedMemory whole_;   // a piece of each rank
  PinnedMemory own_;     // a piece of this rank's
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeStagedCommunicator(Communicator& ranks,
                                                                     const StagedOptions& options) {
  if (ranks.size() == 1) return std::make_unique<StagedCommunicator>(ranks, 0, PinnedMemory(), PinnedMemory());
  const int64_t piece = std::max(options.piece_bytes / ranks.size() / kLeastPiece * kLeastPiece, kLeastPiece);
  ASSIGN_OR_RETURN(PinnedMemory whole, TakePinned(ranks.size() * piece, kInstead));
  ASSIGN_OR_RETURN(PinnedMemory own, TakePinned(piece, kInstead));
  return std::make_unique<StagedCommunicator>(ranks, piece, std::move(whole), std::move(own));
}

}  // namespace reprise::cuda
