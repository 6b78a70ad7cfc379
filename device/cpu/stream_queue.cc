#include "device/cpu/stream_queue.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprise::cpu {
namespace {

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// A few microseconds: less than a sleep and a wake-up cost, too little to take a core from compute.
template <typename Condition>
bool SpinUntil(const Condition& condition) {
  constexpr int kSpins = 64;
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    Pause();
  }
  return condition();
}

}  // namespace

StreamQueue::StreamQueue() : entries_(std::make_unique<Entry[]>(kCapacity)) {}

void StreamQueue::Push(const Entry& entry) {
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  // A quarter of the room at once: else the issuing thread would wake for every entry.
  if (issued - done() == kCapacity) WaitUntilDone(issued - kCapacity + kCapacity / 4);
  entries_[issued % kCapacity] = entry;
  {
    const std::lock_guard lock(mutex_);
    issued_.store(issued + 1, std::memory_order_release);
  }
  arrived_.notify_one();
}

const Entry* StreamQueue::Front() {
  const uint64_t done = done_.load(std::memory_order_relaxed);
  const Entry* front = &entries_[done % kCapacity];
  if (SpinUntil([&] { return issued() > done; })) return front;
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return stopped_ || issued() > done; });
  return issued() > done ? front : nullptr;
}

void StreamQueue::Pop() {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t done = done_.load(std::memory_order_relaxed) + 1;
    done_.store(done, std::memory_order_release);
    wake = done >= wanted_;
    if (wake) wanted_ = kNobody;  // those who want more say so again
  }
  if (wake) progressed_.notify_all();
}

void StreamQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  arrived_.notify_one();
}

void StreamQueue::WaitUntilDone(uint64_t position) {
  if (SpinUntil([&] { return done() >= position; })) return;
  std::unique_lock lock(mutex_);
  while (done() < position) {
    wanted_ = std::min(wanted_, position);
    progressed_.wait(lock);
  }
}

}  // namespace reprise::cpu
