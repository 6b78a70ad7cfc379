// StreamQueue: the fixed-capacity queue between the issuing thread and a stream's worker, and the stream's progress.
//
//   issuing thread                       worker
//   queue.Push({&work});                 while (const Entry* entry = queue.Front()) {
//   queue.WaitUntilDone(queue.issued());   ...;
//   queue.Stop();                          queue.Pop();
//                                        }
//
// One thread pushes, one pops; any thread may wait for progress. Waiting spins for a few microseconds and then sleeps:
// cores are scarce. Nothing allocates after construction. What was written before Push is seen by the worker, and what
// the worker wrote before Pop is seen by whoever sees the progress.
#ifndef REPRISE_DEVICE_CPU_STREAM_QUEUE_H_
#define REPRISE_DEVICE_CPU_STREAM_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>

#include "device/cpu/entry.h"

namespace reprise::cpu {

class StreamQueue {
 public:
  static constexpr uint64_t kCapacity = 4096;

  StreamQueue();

  void Push(const Entry& entry);  // waits for room
  const Entry* Front();           // waits for an entry; nullptr once stopped and empty
  void Pop();                     // the front is done
  void Stop();

  uint64_t issued() const { return issued_.load(std::memory_order_acquire); }
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  void WaitUntilDone(uint64_t position);

 private:
  static constexpr uint64_t kNobody = std::numeric_limits<uint64_t>::max();

  std::unique_ptr<Entry[]> entries_;
  std::mutex mutex_;  // the counts change under it, so that nobody sleeps through a change
  std::condition_variable arrived_;
  std::condition_variable progressed_;
  uint64_t wanted_ = kNobody;  // the nearest position that a sleeper waits for: no wake-up is wasted before it
  bool stopped_ = false;
  alignas(64) std::atomic<uint64_t> issued_{0};
  alignas(64) std::atomic<uint64_t> done_{0};
};

}  // namespace reprise::cpu

#endif  // REPRISE_DEVICE_CPU_STREAM_QUEUE_H_
