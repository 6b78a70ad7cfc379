#include "collectives/mpi/mpi_owner.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace reprise {
namespace {

constexpr int kSpins = 20;  // turns without motion before the first nap
constexpr int kPeerFailed = 5;
// A nap is a part of the wait so far: a wait lasts at most that much longer for it, and one for a rank that is far
// behind does not take a tenth of a core from compute with waking up.
constexpr auto kShortestNap = std::chrono::microseconds(20);
constexpr auto kLongestNap = std::chrono::microseconds(500);
constexpr int kNapsInWait = 16;
constexpr auto kPeerCheck = std::chrono::milliseconds(100);
constexpr auto kAbortPatience = std::chrono::seconds(2);

}  // namespace

MpiOwner::MpiOwner(MPI_Comm parent, double deadline_seconds)
    : parent_(parent), deadline_seconds_(deadline_seconds), watchdog_(deadline_seconds), thread_([this] { Run(); }) {}

MpiOwner::~MpiOwner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

void MpiOwner::Submit(Operation operation) {
  absl::Status failure;
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[static_cast<size_t>(operation.sequence)];
    operation.number = queue.submitted;
    if (failure_.ok() && queue.submitted - queue.completed >= kMaximumPending) {
      failure_ = TooManyPendingError(world_.rank(), operation);
    }
    failure = failure_;
    if (failure.ok()) queue.At(queue.submitted++) = operation;
    wake_.notify_one();
  }
  if (!failure.ok()) operation.done->Finish(failure);
}

void MpiOwner::Abort(int exit_code) {
  abort_code_.store(exit_code);
  {
    const std::lock_guard lock(mutex_);
    wake_.notify_one();
  }
  std::this_thread::sleep_for(kAbortPatience);
  std::_Exit(exit_code);
}

void MpiOwner::Run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // naps of 20 us, not of 70
  watchdog_.Guard("the start of MPI on all ranks");
  const absl::Status status = world_.Initialise(parent_);
  watchdog_.Release();
  if (status.ok()) {
    for (int i = 0; i < kSequenceCount; ++i) {
      overhead_bytes_ += world_.exchange(static_cast<Sequence>(i)).overhead_bytes();
    }
    overhead_bytes_ += static_cast<int64_t>(sizeof(MpiOwner));
  }
  up_.Finish(status);
  if (!status.ok()) return;
  Serve();
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = !failure_.ok();
  }
  // After a failure the other ranks may never come to MPI_Finalize.
  if (!failed) Finalise();
}

void MpiOwner::Finalise() {
  watchdog_.Guard("the end of MPI on all ranks");
  const absl::Status status = world_.Finalise(std::chrono::duration<double>(deadline_seconds_));
  watchdog_.Release();
  if (status.ok()) return;
  std::fputs(absl::StrCat("reprise: ", status.message(), "\n").c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(kPeerFailed);
}

void MpiOwner::Serve() {
  int still = 0;
  while (true) {
    watchdog_.Guard("a call of MPI");
    if (const int code = abort_code_.load(std::memory_order_relaxed); code >= 0) MPI_Abort(world_.communicator(), code);
    const bool moved = Turn(Sequence::kGather) | Turn(Sequence::kReduce);
    if (moved) {
      still = 0;
      continue;
    }
    if (Ending()) return;
    if (Busy()) {
      CheckWaits();
      Pause(still++);
    } else {
      watchdog_.Release();
      SleepIdle();
      still = 0;
    }
  }
}

bool MpiOwner::Turn(Sequence sequence) {
  const auto index = static_cast<size_t>(sequence);
  if (!active_[index] && !StartNext(sequence)) return false;
  Exchange& exchange = world_.exchange(sequence);
  bool moved = false;
  if (const absl::Status status = exchange.Advance(&moved); !status.ok()) {
    // Aborted names all there is to name; MPI's own errors say nothing of the collective.
    Fail(absl::IsAborted(status) ? status
                                 : absl::Status(status.code(), absl::StrCat("rank ", world_.rank(), ": ",
                                                                            DescribeInSequence(exchange.operation()),
                                                                            ": ", status.message())));
    return true;
  }
  if (moved) moved_at_[index] = Clock::now();
  if (!exchange.finished()) return moved;
  Completion* done = exchange.operation().done;
  exchange.End();
  active_[index] = false;
  {
    const std::lock_guard lock(mutex_);
    ++queues_[index].completed;
  }
  done->Finish(absl::OkStatus());
  return true;
}

bool MpiOwner::StartNext(Sequence sequence) {
  const auto index = static_cast<size_t>(sequence);
  Operation operation;
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index];
    if (!failure_.ok() || queue.started == queue.submitted) return false;
    operation = queue.At(queue.started++);
  }
  active_[index] = true;
  moved_at_[index] = Clock::now();
  if (const absl::Status status = world_.exchange(sequence).Start(operation); !status.ok()) {
    Fail(absl::UnavailableError(
        absl::StrCat("rank ", world_.rank(), ": ", DescribeInSequence(operation), ": ", status.message())));
    return false;
  }
  return true;
}

bool MpiOwner::Ending() {
  absl::Status failure;
  bool stop = false;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
    stop = stop_;
  }
  if (failure.ok() && stop && Busy()) failure = absl::UnavailableError("the communicator ended with calls in flight");
  // The failure may be of a call that was refused in its own thread: what stands before it has no future either.
  if (!failure.ok()) Fail(failure);
  return stop;
}

void MpiOwner::CheckWaits() {
  const Clock::time_point now = Clock::now();
  const bool check_peers = now - peers_checked_at_ > kPeerCheck;
  if (check_peers) peers_checked_at_ = now;
  for (size_t i = 0; i < kSequenceCount; ++i) {
    if (!active_[i]) continue;
    const Exchange& exchange = world_.exchange(static_cast<Sequence>(i));
    if (std::chrono::duration<double>(now - moved_at_[i]).count() > deadline_seconds_) {
      return Fail(exchange.DeadlineError(deadline_seconds_));
    }
    if (!check_peers) continue;
    if (const absl::Status peers = exchange.CheckPeers(); !peers.ok()) {
      return Fail(absl::UnavailableError(
          absl::StrCat("rank ", world_.rank(), ": ", DescribeInSequence(exchange.operation()), ": ", peers.message())));
    }
  }
}

void MpiOwner::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  for (size_t i = 0; i < kSequenceCount; ++i) {
    if (active_[i]) world_.exchange(static_cast<Sequence>(i)).End();
    active_[i] = false;
    for (Queue& queue = queues_[i]; queue.completed < queue.submitted; ++queue.completed) {
      queue.At(queue.completed).done->Finish(failure_);
    }
    queues_[i].started = queues_[i].completed;
  }
}

void MpiOwner::SleepIdle() {
  std::unique_lock lock(mutex_);
  const auto nothing_new = [this] {
    return !stop_ && abort_code_.load(std::memory_order_relaxed) < 0 && queues_[0].started == queues_[0].submitted &&
           queues_[1].started == queues_[1].submitted;
  };
  if (!nothing_new()) {
    idle_naps_ = 0;
    return;
  }
  if (!world_.has_messages()) {
    wake_.wait(lock);
    return;
  }
  // MPI may still hold messages that the others wait for: it only sends them while it is called.
  world_.Nudge();
  const std::chrono::milliseconds nap(++idle_naps_ < 50 ? 1 : 20);
  if (wake_.wait_for(lock, nap) == std::cv_status::no_timeout) idle_naps_ = 0;
}

void MpiOwner::Pause(int turns_without_motion) const {
  // No sched_yield: it gives the core to compute for a whole turn of the scheduler, a nap only until it ends.
  if (turns_without_motion < kSpins) return;
  Clock::time_point moved_at;
  for (size_t i = 0; i < kSequenceCount; ++i) {
    if (active_[i]) moved_at = std::max(moved_at, moved_at_[i]);
  }
  const Clock::duration nap = (Clock::now() - moved_at) / kNapsInWait;
  std::this_thread::sleep_for(std::clamp<Clock::duration>(nap, kShortestNap, kLongestNap));
}

}  // namespace reprise
