#include "tests/tools/cuda/fiber.h"

#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define REPRISE_START_SWITCH(fake, bottom, bytes) __sanitizer_start_switch_fiber(fake, bottom, bytes)
#define REPRISE_FINISH_SWITCH(fake, bottom, bytes) __sanitizer_finish_switch_fiber(fake, bottom, bytes)
#else
#define REPRISE_START_SWITCH(fake, bottom, bytes) static_cast<void>(0)
#define REPRISE_FINISH_SWITCH(fake, bottom, bytes) static_cast<void>(0)
#endif

namespace reprise::testing {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kGuardBytes = 4096;

thread_local Fiber* running = nullptr;

// Stacks are made once and used again, by all threads: a kernel's block takes up to 1024. Below each lies a page that
// nobody may touch.
class StackPool {
 public:
  boost::context::stack_context allocate() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) free_.push_back(Map());
    boost::context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = static_cast<char*>(free_.back()) + kStackBytes;
    free_.pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    const std::lock_guard lock(mutex_);
    free_.push_back(static_cast<char*>(stack.sp) - kStackBytes);
  }

 private:
  static void* Map() {
    void* place = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REPRISE_CHECK(place != MAP_FAILED) << "no memory for the stack of a fiber";
    REPRISE_CHECK(mprotect(place, kGuardBytes, PROT_NONE) == 0);
    return static_cast<char*>(place) + kGuardBytes;
  }
  std::mutex mutex_;
  std::vector<void*> free_;
};

StackPool& Pool() {
  static auto* pool = new StackPool;
  return *pool;
}

struct PooledStack {
  boost::context::stack_context allocate() { return Pool().allocate(); }
  void deallocate(boost::context::stack_context& stack) { Pool().deallocate(stack); }
};

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  PooledStack stacks;
  const boost::context::stack_context stack = stacks.allocate();
  stack_bottom_ = static_cast<char*>(stack.sp) - stack.size;
  const boost::context::preallocated place(stack.sp, stack.size, stack);
  self_ = boost::context::fiber(std::allocator_arg, place, stacks,
                                [this](boost::context::fiber&& resumer) { return Run(std::move(resumer)); });
}

void Fiber::Resume() {
  REPRISE_CHECK(!done_) << "a fiber that has ended was resumed";
  Fiber* outer = std::exchange(running, this);
  [[maybe_unused]] void* fake_stack = nullptr;
  REPRISE_START_SWITCH(&fake_stack, stack_bottom_, kStackBytes);
  self_ = std::move(self_).resume();
  REPRISE_FINISH_SWITCH(fake_stack, nullptr, nullptr);
  running = outer;
}

void Fiber::EnterResumer([[maybe_unused]] void** fake_stack) const {
  REPRISE_START_SWITCH(fake_stack, resumer_bottom_, resumer_bytes_);
}

boost::context::fiber Fiber::Run(boost::context::fiber&& resumer) {
  REPRISE_FINISH_SWITCH(nullptr, &resumer_bottom_, &resumer_bytes_);
  resumer_ = std::move(resumer);
  body_();
  done_ = true;
  EnterResumer(nullptr);  // null: this stack's fake frames are not needed again
  return std::move(resumer_);
}

void Fiber::Yield() {
  Fiber* self = running;
  REPRISE_CHECK(self != nullptr) << "Yield outside a fiber";
  self->EnterResumer(&self->fake_stack_);
  self->resumer_ = std::move(self->resumer_).resume();
  REPRISE_FINISH_SWITCH(self->fake_stack_, &self->resumer_bottom_, &self->resumer_bytes_);
}

}  // namespace reprise::testing
