#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/nccl/nccl_line.h"
#include "device/cuda/add_floats.h"
#include "device/cuda/current_stream.h"

namespace reprise::cuda {
namespace {

constexpr std::chrono::microseconds kNap{50};

// Thread blocks of a collective: enough for the links of a node, and compute keeps the rest of the GPU. NCCL_MAX_CTAS
// in the environment says otherwise.
constexpr int kMostBlocks = 16;

const char* const kMoreWords = "; NCCL_DEBUG=INFO in the environment says more";

absl::Status Unavailable(const std::string& what, const std::string& why) {
  return absl::UnavailableError(absl::StrCat(what, ": ", why, kMoreWords));
}

}  // namespace

std::string NcclLine::Name(const Operation& operation) const {
  return absl::StrCat("rank ", rank_, ": ", DescribeInSequence(operation));
}

std::string NcclLine::Name() const {
  return absl::StrCat("rank ", rank_, ": NCCL's communicator of the ",
                      sequence_ == Sequence::kGather ? "gather" : "reduce", " sequence");
}

absl::Status NcclLine::Settle(ncclResult_t result, double seconds, const std::function<std::string()>& what) const {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (result == ncclInProgress) {
    if (const ncclResult_t asked = nccl_.CommGetAsyncError(communicator_, &result); asked != ncclSuccess)
      result = asked;
    if (result != ncclInProgress) break;
    if (Clock::now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(what(), " was not ready within ", seconds, " s: look at the other ranks, or raise --deadline"));
    }
    std::this_thread::sleep_for(kNap);
  }
  if (result == ncclSuccess) return absl::OkStatus();
  return Unavailable(absl::StrCat(what(), " failed"), DescribeResult(nccl_, result));
}

absl::Status NcclLine::MakeEvents() {
  ring_.resize(kMaximumPending);
  for (Pending& pending : ring_) {
    RETURN_IF_ERROR(Call(cudaEventCreateWithFlags(pending.end.place(), cudaEventDisableTiming),
                         "create an event for a collective"));
  }
  return absl::OkStatus();
}

absl::Status NcclLine::Open(const ncclUniqueId& id) {
  RETURN_IF_ERROR(MakeEvents());
  ncclConfig_t configuration = NCCL_CONFIG_INITIALIZER;
  configuration.blocking = 0;
  configuration.maxCTAs = kMostBlocks;
  const ncclResult_t result = nccl_.CommInitRankConfig(&communicator_, ranks_, id, rank_, &configuration);
  if (result == ncclInProgress) return absl::OkStatus();
  return Settle(result, deadline_seconds_, [this] { return Name(); });
}

absl::Status NcclLine::AwaitOpen() {
  return Settle(ncclInProgress, deadline_seconds_, [this] { return Name(); });
}

ncclResult_t NcclLine::Submit(const Operation& o, double* scratch, cudaStream_t stream) const {
  const auto bytes = static_cast<size_t>(o.bytes);
  switch (o.kind) {
    case CollectiveKind::kAllGather:
      return nccl_.AllGather(o.data + rank_ * o.bytes, o.data, bytes, ncclInt8, communicator_, stream);
    case CollectiveKind::kReduceScatter: {
      const size_t count = bytes / sizeof(float);
      // What is to be added to the shard comes into this rank's own part of `whole` first.
      float* own = const_cast<float*>(o.whole) + rank_ * static_cast<int64_t>(count);
      return nccl_.ReduceScatter(o.whole, o.accumulate ? own : o.shard, count, ncclFloat32, ncclSum, communicator_,
                                 stream);
    }
    case CollectiveKind::kAllReduce:
      return nccl_.AllReduce(o.data, o.data, bytes / sizeof(double), ncclFloat64, ncclSum, communicator_, stream);
    case CollectiveKind::kBroadcast:
      return nccl_.Broadcast(o.data, o.data, bytes, ncclInt8, o.root, communicator_, stream);
    case CollectiveKind::kBarrier:
      break;
  }
  // A sum ends on no rank before all have given their part.
  return nccl_.AllReduce(scratch, scratch, 1, ncclFloat64, ncclSum, communicator_, stream);
}

absl::Status NcclLine::Start(Operation o, double* scratch) {
  o.number = next_number_++;
  if (o.bytes == 0 && o.kind != CollectiveKind::kBarrier) return absl::OkStatus();
  auto* stream = static_cast<cudaStream_t>(CurrentStream());
  // Before NCCL is through with a call its kernel may not stand on the stream yet, and no event behind it.
  RETURN_IF_ERROR(Settle(Submit(o, scratch, stream), deadline_seconds_, [&] { return Name(o); }));
  if (o.kind == CollectiveKind::kReduceScatter && o.accumulate) {
    const int64_t count = o.bytes / static_cast<int64_t>(sizeof(float));
    AddFloats(o.shard, o.whole + rank_ * count, count);
  }
  // Part of a graph: it is under way whenever that is, and the device's own deadline holds for it.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  static_cast<void>(cudaStreamIsCapturing(stream, &capture));
  if (capture != cudaStreamCaptureStatusNone) return absl::OkStatus();
  Pending& pending = ring_[static_cast<size_t>(oldest_ + under_way_) % ring_.size()];
  const absl::Status recorded = Call(cudaEventRecord(pending.end.get(), stream), "record an event");
  if (!recorded.ok()) return absl::UnavailableError(absl::StrCat(Name(o), ": ", recorded.message()));
  pending.operation = o;
  if (under_way_++ == 0) oldest_since_ = Clock::now();
  return absl::OkStatus();
}

absl::Status NcclLine::ForgetWhatHasEnded() {
  while (under_way_ > 0) {
    const cudaError_t error = cudaEventQuery(oldest().end.get());
    if (error == cudaErrorNotReady) return absl::OkStatus();
    if (error != cudaSuccess) {
      const absl::Status status = Call(error, "say whether it has ended");
      return absl::UnavailableError(absl::StrCat(Name(oldest().operation), ": ", status.message()));
    }
    oldest_ = (oldest_ + 1) % static_cast<int>(ring_.size());
    --under_way_;
    oldest_since_ = Clock::now();
  }
  return absl::OkStatus();
}

absl::Status NcclLine::Check() {
  RETURN_IF_ERROR(ForgetWhatHasEnded());
  ncclResult_t found = ncclSuccess;
  if (const ncclResult_t asked = nccl_.CommGetAsyncError(communicator_, &found); asked != ncclSuccess) found = asked;
  if (found != ncclSuccess && found != ncclInProgress) {
    return Unavailable(absl::StrCat(empty() ? Name() : Name(oldest().operation), " failed"),
                       DescribeResult(nccl_, found));
  }
  if (empty() || Clock::now() - oldest_since_ <= std::chrono::duration<double>(deadline_seconds_)) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat(Name(oldest().operation), " has not ended within ", deadline_seconds_,
                                                  " s: look at the other ranks, or raise --deadline"));
}

absl::Status NcclLine::Close(double seconds) {
  if (communicator_ == nullptr) return absl::OkStatus();
  const auto name = [this] { return absl::StrCat("the end of ", Name()); };
  RETURN_IF_ERROR(Settle(nccl_.CommFinalize(communicator_), seconds, name));
  const ncclResult_t result = nccl_.CommDestroy(std::exchange(communicator_, nullptr));
  if (result == ncclSuccess) return absl::OkStatus();
  return Unavailable(absl::StrCat(name(), " failed"), DescribeResult(nccl_, result));
}

void NcclLine::Abort() {
  if (communicator_ == nullptr) return;
  static_cast<void>(nccl_.CommAbort(std::exchange(communicator_, nullptr)));  // nobody can act on what fails here
  under_way_ = 0;
}

}  // namespace reprise::cuda
