// Completion: one asynchronous operation, from start to end, without allocation.
//
//   Completion done;                 // reusable; owned by who starts the operation
//   done.Reset();
//   communicator.AllGather(..., &done);
//   RETURN_IF_ERROR(done.Wait());
//
// Thread-safe: one thread starts and resets, another finishes, any may wait.
#ifndef REPRISE_DEVICE_COMPLETION_H_
#define REPRISE_DEVICE_COMPLETION_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
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
  mutable absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise

#endif  // REPRISE_DEVICE_COMPLETION_H_
