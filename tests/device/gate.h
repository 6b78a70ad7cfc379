// Gate: holds work in a test until the test opens it.
#ifndef REPRISE_TESTS_DEVICE_GATE_H_
#define REPRISE_TESTS_DEVICE_GATE_H_

#include <condition_variable>
#include <mutex>

namespace reprise::testing {

class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DEVICE_GATE_H_
