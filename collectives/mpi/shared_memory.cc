#include "collectives/mpi/shared_memory.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr int64_t kPage = 4096;

int64_t CountersBegin() { return RoundUp(static_cast<int64_t>(sizeof(SharedLane)), 64); }
int64_t SlotsBegin(int local_size) {
  return RoundUp(CountersBegin() + local_size * static_cast<int64_t>(sizeof(SharedCounter)), kPage);
}

// Whether all ranks of `local` say yes.
bool AllAgree(MPI_Comm local, bool mine) {
  int yes = mine ? 1 : 0;
  int all = 0;
  return MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, local) == MPI_SUCCESS && all == 1;
}

}  // namespace

int64_t LaneView::Bytes(int local_size) { return SlotsBegin(local_size) + kSlots * kSlotBytes; }

std::atomic<int64_t>& LaneView::consumed(int reader) const {
  std::byte* counter = base_ + CountersBegin() + reader * static_cast<int64_t>(sizeof(SharedCounter));
  return reinterpret_cast<SharedCounter*>(counter)->value;
}

std::byte* LaneView::slot(int64_t chunk) const { return base_ + SlotsBegin(local_size_) + chunk % kSlots * kSlotBytes; }

void LaneView::Construct() const {
  // Touches every page, so that no step pays for it.
  std::memset(base_, 0, static_cast<size_t>(Bytes(local_size_)));
  new (base_) SharedLane();
  for (int reader = 0; reader < local_size_; ++reader) {
    new (base_ + CountersBegin() + reader * static_cast<int64_t>(sizeof(SharedCounter))) SharedCounter();
  }
}

absl::Status SharedMemory::Allocate(MPI_Comm local) {
  int rank = 0;
  MPI_Comm_rank(local, &rank);
  MPI_Comm_size(local, &local_size_);
  bytes_ = kSequenceCount * LaneView::Bytes(local_size_);
  MPI_Info info = MPI_INFO_NULL;
  RETURN_IF_ERROR(MpiStatus(MPI_Info_create(&info), "MPI_Info_create"));
  MPI_Info_set(info, "alloc_shared_noncontig", "true");  // each rank's part on pages of its own
  void* own = nullptr;
  const int code = MPI_Win_allocate_shared(bytes_ + kPage, 1, info, local, &own, &window_);
  MPI_Info_free(&info);
  absl::Status status = MpiStatus(code, "memory shared between the ranks of this host");
  if (status.ok()) status = Query(local);
  if (!AllAgree(local, status.ok())) {
    return status.ok() ? absl::UnavailableError("memory could not be shared between the ranks of this host") : status;
  }
  for (int sequence = 0; sequence < kSequenceCount; ++sequence) Lane(rank, static_cast<Sequence>(sequence)).Construct();
  RETURN_IF_ERROR(FindProcesses(local));
  return MpiStatus(MPI_Barrier(local), "MPI_Barrier");
}

absl::Status SharedMemory::Query(MPI_Comm /*local*/) {
  for (int rank = 0; rank < local_size_; ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    void* base = nullptr;
    RETURN_IF_ERROR(MpiStatus(MPI_Win_shared_query(window_, rank, &size, &unit, &base), "MPI_Win_shared_query"));
    if (base == nullptr || size < bytes_ + kPage) {
      return absl::UnavailableError("memory shared between the ranks of this host is too small");
    }
    // MPI puts its own words before the memory. Every rank maps it on a page, so all find the same place.
    auto* const bytes = static_cast<std::byte*>(base);
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base));
    bases_.push_back(bytes + (RoundUp(address, kPage) - address));
  }
  return absl::OkStatus();
}

absl::Status SharedMemory::FindProcesses(MPI_Comm local) {
  const int own = getpid();
  processes_.resize(static_cast<size_t>(local_size_));
  RETURN_IF_ERROR(MpiStatus(MPI_Allgather(&own, 1, MPI_INT, processes_.data(), 1, MPI_INT, local), "MPI_Allgather"));
  for (int& process : processes_) {
    if (kill(process, 0) != 0 && errno == ESRCH) process = 0;
  }
  return absl::OkStatus();
}

absl::Status SharedMemory::Free() {
  if (window_ == MPI_WIN_NULL) return absl::OkStatus();
  return MpiStatus(MPI_Win_free(&window_), "MPI_Win_free");
}

LaneView SharedMemory::Lane(int local_rank, Sequence sequence) const {
  std::byte* base = bases_[static_cast<size_t>(local_rank)];
  return {base + static_cast<int64_t>(sequence) * LaneView::Bytes(local_size_), local_size_};
}

}  // namespace reprise
