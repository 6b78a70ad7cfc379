// Fiber: a function that can stop in its middle and go on later, on a stack of its own. Boost.Context underneath, with
// what the address sanitizer must be told.
//
//   Fiber fiber([&] { first(); Fiber::Yield(); second(); });
//   fiber.Resume();               // runs first()
//   fiber.Resume();               // runs second()
//   fiber.done();                 // true
#ifndef REPRISE_TESTS_TOOLS_CUDA_FIBER_H_
#define REPRISE_TESTS_TOOLS_CUDA_FIBER_H_

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace reprise::testing {

// Not moved while it runs; resumed and destroyed by the thread that made it. One that is destroyed unfinished leaks
// what stands on its stack.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it yields or ends.
  void Resume();
  bool done() const { return done_; }

  // Goes back to who resumed the running fiber.
  static void Yield();

 private:
  boost::context::fiber Run(boost::context::fiber&& resumer);
  void EnterResumer(void** fake_stack) const;

  std::function<void()> body_;
  boost::context::fiber self_;
  boost::context::fiber resumer_;
  bool done_ = false;
  // The sanitizer's view of both stacks.
  const void* stack_bottom_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  size_t resumer_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_FIBER_H_
