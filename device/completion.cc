#include "device/completion.h"

#include <utility>

#include "base/check.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_acquire(address) static_cast<void>(address)
#define __tsan_release(address) static_cast<void>(address)
#endif

namespace reprise {
namespace {

// absl::MutexLock that ThreadSanitizer can see: the packaged Abseil is built without it, and its mutex orders nothing
// there.
class VisibleLock {
 public:
  explicit VisibleLock(absl::Mutex* mutex) : mutex_(mutex), lock_(mutex) { __tsan_acquire(mutex_); }
  ~VisibleLock() { __tsan_release(mutex_); }
  VisibleLock(const VisibleLock&) = delete;
  VisibleLock& operator=(const VisibleLock&) = delete;

 private:
  absl::Mutex* const mutex_;
  const absl::MutexLock lock_;
};

}  // namespace

void Completion::Reset() {
  const VisibleLock lock(&mutex_);
  done_ = false;
  status_ = absl::OkStatus();
}

void Completion::Finish(absl::Status status) {
  const VisibleLock lock(&mutex_);
  REPRISE_CHECK(!done_) << "a completion was finished twice";
  done_ = true;
  status_ = std::move(status);
}

bool Completion::done() const {
  const VisibleLock lock(&mutex_);
  return done_;
}

absl::Status Completion::Wait(absl::Duration timeout) const {
  const VisibleLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout)) {
    return absl::DeadlineExceededError("an asynchronous operation did not end in time");
  }
  __tsan_acquire(&mutex_);  // the wait let go of the mutex and took it again
  return status_;
}

}  // namespace reprise
