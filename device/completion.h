// Completion: one asynchronous operation, from start to end, without allocation.
//
//   Completion done;                 // reusable; owned by who starts the operation
//   done.Reset();
//   communicator.AllGather(..., &done);
//   RETURN_IF_ERROR(done.Wait());
//
// Thread-safe: one thread starts and resets, another finishes, any may wait.
//
// Standard mutexes here and in collectives/, not Abseil's: the packaged Abseil is not built with the thread sanitizer,
// which would not see what its mutexes order.
#ifndef REPRISE_DEVICE_COMPLETION_H_
#define REPRISE_DEVICE_COMPLETION_H_

#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace reprise {

class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  void Reset();

  // Ends the operation. Called once after each Reset; wakes every waiter.
  void Finish(absl::Status status);

  bool done() const;

  // Waits for Finish and returns its status; DeadlineExceeded after `timeout`.
  absl::Status Wait(absl::Duration timeout = absl::InfiniteDuration()) const;

 private:
  mutable std::mutex mutex_;  // guards the two below
  mutable std::condition_variable finished_;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace reprise

#endif  // REPRISE_DEVICE_COMPLETION_H_
