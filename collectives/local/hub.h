// LocalHub: where ranks that are threads of one process meet.
//
// The n-th calls of a sequence fill one slot of a fixed ring; the rank that comes last moves the data of all ranks in
// its own thread and finishes every rank's completion. One thread watches the deadline of the oldest call of each
// sequence. The first failure (calls that do not match, a rank that does not come or has ended) finishes all that is
// pending and every later call.
#ifndef REPRISE_COLLECTIVES_LOCAL_HUB_H_
#define REPRISE_COLLECTIVES_LOCAL_HUB_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "collectives/operation.h"

namespace reprise {

class LocalHub {
 public:
  LocalHub(int size, double deadline_seconds);
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int size() const { return size_; }
  int64_t overhead_bytes() const;

  void Submit(int rank, Operation operation);

  // The rank makes no more calls; others that wait for it fail at once.
  void Leave(int rank);

 private:
  using Clock = std::chrono::steady_clock;

  // The n-th calls of all ranks.
  struct Slot {
    std::vector<Operation> operations;  // by rank; `done` is null until the rank has come
    int arrived = 0;
    int first = 0;         // the first rank to come
    bool running = false;  // all have come: the last one works on it without the lock
    Clock::time_point since;
  };
  struct Line {
    std::vector<Slot> ring;
    std::vector<int64_t> next;  // number of each rank's next call
    int64_t completed = 0;
    Clock::time_point progress;        // of the last completion
    std::vector<const float*> floats;  // room for the sums' inputs, of the slot that is running
    std::vector<const double*> doubles;
  };

  Slot& SlotOf(Line& line, int64_t number) { return line.ring[static_cast<size_t>(number % kMaximumPending)]; }
  // Takes the call into its slot. The slot, if this call was the last one missing; null otherwise.
  Slot* Arrive(int rank, Operation* operation);
  // The mutex is held in these.
  absl::Status CheckArrival(int rank, const Operation& operation, const Line& line, const Slot& slot) const;
  void Execute(Line& line, const Slot& slot) const;
  void Fail(absl::Status status);
  void Clear(Slot& slot) const;

  void WatchDeadlines();
  // The earliest deadline of what waits, or time_point::max(); fails the hub where one has passed.
  Clock::time_point CheckDeadlines();
  absl::Status DeadlineError(const Slot& slot) const;

  const int size_;
  const double deadline_seconds_;
  std::mutex mutex_;  // guards all below; a slot that is `running` belongs to the thread that runs it
  std::condition_variable wake_watcher_;
  std::array<Line, kSequenceCount> lines_;
  std::vector<bool> left_;
  absl::Status failure_;
  bool watcher_idle_ = false;
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_LOCAL_HUB_H_
