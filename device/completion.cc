#include "device/completion.h"

#include <utility>

#include "base/check.h"

namespace reprise {

void Completion::Reset() {
  const std::lock_guard lock(mutex_);
  done_ = false;
  status_ = absl::OkStatus();
}

void Completion::Finish(absl::Status status) {
  const std::lock_guard lock(mutex_);
  REPRISE_CHECK(!done_) << "a completion was finished twice";
  done_ = true;
  status_ = std::move(status);
  // Under the mutex: a waiter may destroy this as soon as it has the mutex.
  finished_.notify_all();
}

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

absl::Status Completion::Wait(absl::Duration timeout) const {
  // Beyond this the standard clock's sums could overflow; nobody lives to see the difference.
  constexpr absl::Duration kForever = absl::Hours(24 * 365);
  const auto done = [this] { return done_; };
  std::unique_lock lock(mutex_);
  if (timeout >= kForever) {
    finished_.wait(lock, done);
  } else if (!finished_.wait_for(lock, absl::ToChronoNanoseconds(timeout), done)) {
    return absl::DeadlineExceededError("an asynchronous operation did not end in time");
  }
  return status_;
}

}  // namespace reprise
