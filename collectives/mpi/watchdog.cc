#include "collectives/mpi/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace reprise {
namespace {

constexpr int kTicks = 20;  // a deadline
constexpr int kPeerFailed = 5;

}  // namespace

Watchdog::Watchdog(double deadline_seconds) : deadline_seconds_(deadline_seconds), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    stopped_.notify_one();
  }
  thread_.join();
}

void Watchdog::Watch() {
  const std::chrono::duration<double> tick(std::max(0.01, deadline_seconds_ / kTicks));
  uint64_t last = 0;
  int silent = 0;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, tick, [this] { return stop_; })) {
    const uint64_t beats = beats_.load(std::memory_order_relaxed);
    const char* what = what_.load(std::memory_order_relaxed);
    silent = what == nullptr || beats != last ? 0 : silent + 1;
    last = beats;
    if (silent >= kTicks) End(what);
  }
}

void Watchdog::End(const char* what) const {
  const int rank = ProcessRank();
  const std::string who = rank < 0 ? "" : absl::StrCat("rank ", rank, ": ");
  std::fputs(absl::StrCat("reprise: ", who, what, " did not return within ", deadline_seconds_, " s\n").c_str(),
             stderr);
  std::fflush(stderr);
  std::_Exit(kPeerFailed);
}

}  // namespace reprise
