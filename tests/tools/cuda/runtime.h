// What tests decide and ask of the stand-in for CUDA's runtime (standin/cuda_runtime.h).
//
//   ResetRuntime({.seed = 7, .failing_call = 12});     // the 12th call from here on fails
//   ... make a device, run a step ...
//   EXPECT_EQ(LiveObjects(), 0);                       // all memory, streams and events were given back
#ifndef REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_
#define REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_

#include <cstdint>
#include <functional>

namespace reprise::testing {

struct RuntimeOptions {
  uint64_t seed = 0;
  int64_t failing_call = -1;  // 0-based; that call does nothing and returns an error. -1: none
  int devices = 1;
  int64_t memory_bytes = int64_t{1} << 30;  // of a device
};

// Only while nothing of the runtime is alive.
void ResetRuntime(const RuntimeOptions& options);

int64_t RuntimeCalls();  // since the last reset
int64_t LiveObjects();   // memory, streams and events that were made and not given back

// Puts work into a stream's queue, as a kernel launch does.
void EnqueueOnStream(void* stream, std::function<void()> work);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_
