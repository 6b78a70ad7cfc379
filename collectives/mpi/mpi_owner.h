// MpiOwner: the one thread of Reprise that calls MPI, from its initialisation to its end.
//
// Other threads hand it operations; it starts the first of each sequence, moves both, and sleeps between tests, since
// the cores belong to compute. The first failure finishes all that is pending and every later operation.
#ifndef REPRISE_COLLECTIVES_MPI_MPI_OWNER_H_
#define REPRISE_COLLECTIVES_MPI_MPI_OWNER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "collectives/mpi/watchdog.h"
#include "collectives/mpi/world.h"
#include "collectives/operation.h"
#include "device/completion.h"

namespace reprise {

class MpiOwner {
 public:
  // `parent`: of a program that has initialised MPI; MPI_COMM_NULL: MPI is initialised and ended here.
  MpiOwner(MPI_Comm parent, double deadline_seconds);
  // Ends MPI together with the other ranks; after a failure, at once and without them.
  ~MpiOwner();
  MpiOwner(const MpiOwner&) = delete;
  MpiOwner& operator=(const MpiOwner&) = delete;

  // Once, before anything else: whether MPI came up. `world` may be read from then on.
  absl::Status WaitUntilUp() const { return up_.Wait(); }
  const World& world() const { return world_; }
  int64_t overhead_bytes() const { return overhead_bytes_; }

  void Submit(Operation operation);
  [[noreturn]] void Abort(int exit_code);

 private:
  using Clock = std::chrono::steady_clock;

  struct Queue {
    std::array<Operation, kMaximumPending> ring;
    int64_t submitted = 0;
    int64_t started = 0;
    int64_t completed = 0;
    Operation& At(int64_t number) { return ring[static_cast<size_t>(number % kMaximumPending)]; }
  };

  void Run();
  void Serve();
  void Finalise();
  // One turn for a sequence; true if something moved.
  bool Turn(Sequence sequence);
  bool StartNext(Sequence sequence);
  // True if the communicator is being destroyed. Finishes what is pending after a failure.
  bool Ending();
  // Looks for what has waited too long, or for peers that are gone.
  void CheckWaits();
  void Fail(const absl::Status& status);
  void SleepIdle();
  void Pause(int turns_without_motion) const;
  bool Busy() const { return active_[0] || active_[1]; }

  const MPI_Comm parent_;
  const double deadline_seconds_;
  Watchdog watchdog_;
  Completion up_;
  World world_;  // of the owner thread; what never changes may be read by all
  int64_t overhead_bytes_ = 0;

  // Of the owner thread.
  std::array<bool, kSequenceCount> active_ = {};
  std::array<Clock::time_point, kSequenceCount> moved_at_;
  Clock::time_point peers_checked_at_;
  int idle_naps_ = 0;

  std::atomic<int> abort_code_{-1};
  std::mutex mutex_;  // guards the three below
  std::condition_variable wake_;
  std::array<Queue, kSequenceCount> queues_;
  absl::Status failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_MPI_OWNER_H_
