#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "collectives/nccl/nccl_api.h"
#include "collectives/nccl/nccl_communicator.h"
#include "collectives/nccl/nccl_line.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/handles.h"

namespace reprise::cuda {
namespace {

constexpr std::chrono::microseconds kNap{50};
constexpr double kMostSecondsToClose = 10;
constexpr int64_t kScratchOfRank = 128;  // bytes, of each line

// Calls that come without a stream go to one of ours.
class WithStream {
 public:
  explicit WithStream(cudaStream_t stream) { SetCurrentStream(stream); }
  ~WithStream() { SetCurrentStream(nullptr); }
  WithStream(const WithStream&) = delete;
  WithStream& operator=(const WithStream&) = delete;
};

class TwoLines final : public NcclCommunicator {
 public:
  TwoLines(const NcclApi& nccl, Communicator& ranks, double deadline_seconds)
      : NcclCommunicator(ranks),
        nccl_(nccl),
        lines_{NcclLine(nccl, Sequence::kGather, ranks.rank(), ranks.size(), deadline_seconds),
               NcclLine(nccl, Sequence::kReduce, ranks.rank(), ranks.size(), deadline_seconds)} {}
  ~TwoLines() override;

  // Collective. After an error only the destructor may follow.
  absl::Status Open();

  absl::Status Check() override;

 protected:
  int64_t own_bytes() const override { return device_bytes_; }
  void Submit(const Operation& operation) override;

 private:
  absl::Status Prepare(absl::Span<ncclUniqueId> ids);
  absl::Status OpenLines();
  absl::Status WarmUp();
  absl::Status Start(const Operation& operation);
  // Asks both lines until there is enough of what is waited for.
  template <typename Enough>
  absl::Status CheckUntil(Enough enough);
  absl::Status Fail(absl::Status status);
  void GiveUp();

  NcclLine& line(Sequence sequence) { return lines_[static_cast<size_t>(sequence)]; }
  std::byte* scratch(Sequence sequence) const {
    return static_cast<std::byte*>(scratch_.get()) + static_cast<int64_t>(sequence) * size() * kScratchOfRank;
  }

  const NcclApi& nccl_;
  std::array<NcclLine, kSequenceCount> lines_;
  StreamHandle stream_;   // of calls outside a Work
  DeviceMemory scratch_;  // zeros, kScratchOfRank for each rank and line
  int64_t device_bytes_ = 0;
  absl::Status failure_;
};

TwoLines::~TwoLines() {
  const auto is_empty = [](const NcclLine& l) { return l.empty(); };
  static_cast<void>(TwoLines::Check());
  bool close = failure_.ok() && std::all_of(lines_.begin(), lines_.end(), is_empty);
  for (NcclLine& l : lines_) close = close && l.Close(kMostSecondsToClose).ok();
  if (!close) GiveUp();
}

// Giving a communicator up waits for the whole device, and so for kernels of the other one: both at once.
void TwoLines::GiveUp() {
  static_cast<void>(nccl_.GroupStart());
  for (NcclLine& l : lines_) l.Abort();
  static_cast<void>(nccl_.GroupEnd());
}

absl::Status TwoLines::Fail(absl::Status status) {
  if (status.ok() || !failure_.ok()) return failure_;
  failure_.Update(std::move(status));
  GiveUp();
  return failure_;
}

absl::Status TwoLines::Open() {
  absl::Status status = OpenLines();
  failure_.Update(status);
  return status;
}

absl::Status TwoLines::Prepare(absl::Span<ncclUniqueId> ids) {
  RETURN_IF_ERROR(CheckVersion(nccl_));
  const auto bytes = static_cast<size_t>(kSequenceCount * size() * kScratchOfRank);
  RETURN_IF_ERROR(Call(cudaStreamCreateWithPriority(stream_.place(), cudaStreamNonBlocking, 0), "create a stream"));
  RETURN_IF_ERROR(Call(cudaMalloc(scratch_.place(), bytes), absl::StrCat("take ", bytes, " bytes of device memory")));
  RETURN_IF_ERROR(Call(cudaMemsetAsync(scratch_.get(), 0, bytes, stream_.get()), "fill memory with zeros"));
  RETURN_IF_ERROR(Call(cudaStreamSynchronize(stream_.get()), "fill memory with zeros"));
  if (rank() != 0) return absl::OkStatus();
  for (ncclUniqueId& id : ids) {
    const ncclResult_t result = nccl_.GetUniqueId(&id);
    if (result == ncclSuccess) continue;
    return absl::UnavailableError(absl::StrCat("NCCL makes no id for ranks to meet by: ", DescribeResult(nccl_, result),
                                               "; NCCL_DEBUG=INFO in the environment says more"));
  }
  return absl::OkStatus();
}

// Ranks agree after each part, so that where one fails the others do not wait for it in vain.
absl::Status TwoLines::OpenLines() {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  absl::Status status = Call(cudaMemGetInfo(&before, &total), "say how much memory is free");
  std::array<ncclUniqueId, kSequenceCount> ids;
  if (status.ok()) status.Update(Prepare(absl::MakeSpan(ids)));
  RETURN_IF_ERROR(Agree(ranks(), status));
  auto* bytes = reinterpret_cast<std::byte*>(ids.data());
  RETURN_IF_ERROR(reprise::Broadcast(ranks(), "NCCL's ids", absl::MakeSpan(bytes, sizeof(ids)), 0));
  for (size_t s = 0; s < lines_.size(); ++s) {
    RETURN_IF_ERROR(Agree(ranks(), lines_[s].Open(ids[s])));
    RETURN_IF_ERROR(Agree(ranks(), lines_[s].AwaitOpen()));
  }
  status.Update(WarmUp());
  if (status.ok()) status.Update(Call(cudaMemGetInfo(&after, &total), "say how much memory is free"));
  device_bytes_ = std::max<int64_t>(0, static_cast<int64_t>(before) - static_cast<int64_t>(after));
  return Agree(ranks(), status);
}

// One small collective of each kind: what NCCL and CUDA take when one first runs is taken, and counted, before a step.
absl::Status TwoLines::WarmUp() {
  for (const Sequence sequence : {Sequence::kGather, Sequence::kReduce}) {
    std::byte* whole = scratch(sequence);
    std::byte* own = whole + rank() * kScratchOfRank;
    Completion done;
    const auto wait = [&done] {
      absl::Status status = done.Wait();
      done.Reset();
      return status;
    };
    AllGather(sequence, {.label = "warm-up", .whole = whole, .shard_bytes = kScratchOfRank}, &done);
    RETURN_IF_ERROR(wait());
    ReduceScatter(sequence,
                  {.label = "warm-up",
                   .whole = reinterpret_cast<const float*>(whole),
                   .shard = reinterpret_cast<float*>(own),
                   .shard_elements = kScratchOfRank / static_cast<int64_t>(sizeof(float))},
                  &done);
    RETURN_IF_ERROR(wait());
    Barrier(sequence, &done);  // the sum of a double
    RETURN_IF_ERROR(wait());
    Broadcast(sequence, "warm-up", absl::MakeSpan(whole, kScratchOfRank), 0, &done);
    RETURN_IF_ERROR(wait());
    line(sequence).StartNumbersAnew();
  }
  return absl::OkStatus();
}

void TwoLines::Submit(const Operation& operation) {
  if (failure_.ok()) static_cast<void>(Fail(Start(operation)));
  operation.done->Finish(failure_);
}

absl::Status TwoLines::Start(const Operation& o) {
  const int64_t elements = o.bytes / static_cast<int64_t>(sizeof(float));
  REPRISE_CHECK(!o.accumulate || elements == 0 || o.shard != o.whole + rank() * elements)
      << "the sum of '" << o.label << "' would be added to a part of itself";
  NcclLine& l = line(o.sequence);
  RETURN_IF_ERROR(CheckUntil([&] { return !l.full(); }));
  auto* zero = reinterpret_cast<double*>(scratch(o.sequence));
  if (CurrentStream() != nullptr) return l.Start(o, zero);
  const WithStream with(stream_.get());
  RETURN_IF_ERROR(l.Start(o, zero));
  return CheckUntil([&] { return l.empty(); });
}

template <typename Enough>
absl::Status TwoLines::CheckUntil(Enough enough) {
  while (!enough()) {
    for (NcclLine& l : lines_) RETURN_IF_ERROR(l.Check());
    if (!enough()) std::this_thread::sleep_for(kNap);
  }
  return absl::OkStatus();
}

absl::Status TwoLines::Check() {
  for (NcclLine& l : lines_) {
    if (failure_.ok()) static_cast<void>(Fail(l.Check()));
  }
  return failure_;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNcclCommunicator(Communicator& ranks,
                                                                       const CommunicatorOptions& options) {
  const absl::StatusOr<const NcclApi*> nccl = FindNccl();
  RETURN_IF_ERROR(Agree(ranks, nccl.status()));
  auto communicator = std::make_unique<TwoLines>(**nccl, ranks, options.deadline_seconds);
  RETURN_IF_ERROR(communicator->Open());
  return communicator;
}

}  // namespace reprise::cuda
