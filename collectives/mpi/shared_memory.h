// The memory that ranks of one host share: for each rank and sequence one SharedLane, written by that rank and read by
// the others, with counters that only grow.
//
// A chunk is published by counting `published` up after it is written, and its slot is written again only after every
// reader's `consumed` has passed it; so data needs no locks, and caches carry it from core to core.
#ifndef REPRISE_COLLECTIVES_MPI_SHARED_MEMORY_H_
#define REPRISE_COLLECTIVES_MPI_SHARED_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mpi/mpi_api.h"
#include "collectives/mpi/transfer.h"
#include "collectives/operation.h"

namespace reprise {

// A lane has kSlots chunks of at most kSlotBytes in flight: enough of them that a rank that gets a core has work for
// all of its turn, where ranks share cores; few enough that they stay in cache.
inline constexpr int kSlots = 8;
inline constexpr int64_t kSlotBytes = int64_t{128} << 10;

struct alignas(64) SharedCounter {
  std::atomic<int64_t> value{0};
  static_assert(std::atomic<int64_t>::is_always_lock_free, "counters must work between processes");
};

// What one rank shows to the others of one sequence; followed by a counter for each local rank, then by the slots.
struct SharedLane {
  SharedCounter published;  // chunks
  SharedCounter headers;    // operations whose header stands
  // A rank starts its operation n + 2 only after all have started n + 1, and so have read header n: two are enough.
  std::array<OperationHeader, 2> header;
};

// Addresses within one lane.
class LaneView {
 public:
  LaneView(std::byte* base, int local_size) : base_(base), local_size_(local_size) {}

  static int64_t Bytes(int local_size);

  SharedLane& lane() const { return *reinterpret_cast<SharedLane*>(base_); }
  // Chunks that local rank `reader` has taken.
  std::atomic<int64_t>& consumed(int reader) const;
  std::byte* slot(int64_t chunk) const;

  // Makes the objects, by the rank that owns the lane.
  void Construct() const;

 private:
  std::byte* base_;
  int local_size_;
};

// One MPI window over the ranks of a host. Made and freed by all of them together.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Collective over `local`. Unavailable, on all ranks alike, where there is no such memory.
  absl::Status Allocate(MPI_Comm local);
  absl::Status Free();

  int64_t bytes() const { return bytes_; }
  LaneView Lane(int local_rank, Sequence sequence) const;
  // Process of a local rank, or 0 where it cannot be seen from here (another process namespace).
  int Process(int local_rank) const { return processes_[static_cast<size_t>(local_rank)]; }

 private:
  absl::Status Query(MPI_Comm local);
  absl::Status FindProcesses(MPI_Comm local);

  MPI_Win window_ = MPI_WIN_NULL;
  int local_size_ = 0;
  int64_t bytes_ = 0;
  std::vector<std::byte*> bases_;
  std::vector<int> processes_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_SHARED_MEMORY_H_
