#include "device/completion.h"

#include <utility>

#include "base/check.h"

namespace reprise {

void Completion::Reset() {
  const absl::MutexLock lock(&mutex_);
  done_ = false;
  status_ = absl::OkStatus();
}

void Completion::Finish(absl::Status status) {
  const absl::MutexLock lock(&mutex_);
  REPRISE_CHECK(!done_) << "a completion was finished twice";
  done_ = true;
  status_ = std::move(status);
}

bool Completion::done() const {
  const absl::MutexLock lock(&mutex_);
  return done_;
}

absl::Status Completion::Wait(absl::Duration timeout) const {
  const absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout)) {
    return absl::DeadlineExceededError("an asynchronous operation did not end in time");
  }
  return status_;
}

}  // namespace reprise
