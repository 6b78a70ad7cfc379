// Watchdog: ends the process where a call that cannot be interrupted does not return in time.
//
//   Watchdog watchdog(deadline_seconds);
//   watchdog.Guard("MPI_Init");       // from now on
//   watchdog.Release();               // or Guard with another name, or Beat: all start the time anew
//
// At the deadline it prints `reprise: rank R: MPI_Init did not return within 300 s` and exits with 5. Time is counted
// in its own ticks, so that a process that was stopped and continued is not taken for one that hangs.
#ifndef REPRISE_COLLECTIVES_MPI_WATCHDOG_H_
#define REPRISE_COLLECTIVES_MPI_WATCHDOG_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace reprise {

class Watchdog {
 public:
  explicit Watchdog(double deadline_seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `what` is a literal. Cheap enough to be called in a loop.
  void Guard(const char* what) {
    what_.store(what, std::memory_order_relaxed);
    Beat();
  }
  void Beat() { beats_.fetch_add(1, std::memory_order_relaxed); }
  void Release() { Guard(nullptr); }

 private:
  void Watch();
  [[noreturn]] void End(const char* what) const;

  const double deadline_seconds_;
  std::atomic<const char*> what_{nullptr};
  std::atomic<uint64_t> beats_{0};
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_WATCHDOG_H_
