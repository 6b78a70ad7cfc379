// What tests decide and ask of the stand-in for CUDA's runtime (standin/cuda_runtime.h).
//
//   ResetRuntime({.seed = 7, .failing_call = 12});     // the 12th call from here on fails
//   ... make a device, run a step ...
//   EXPECT_EQ(LiveObjects(), 0);                       // all memory, streams and events were given back
#ifndef REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_
#define REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <string>

namespace reprise::testing {

struct RuntimeOptions {
  uint64_t seed = 0;
  int64_t failing_call = -1;  // 0-based; that call does nothing and returns an error. -1: none
  int devices = 1;
  int64_t memory_bytes = int64_t{1} << 30;  // of a device
};

// Each thread has a GPU of its own, so that ranks may be threads. Only while nothing of any is alive; `options` are
// those of this thread and of threads that come later, whose seeds are drawn from this one's.
void ResetRuntime(const RuntimeOptions& options);

int CurrentDevice();     // of this thread: what cudaSetDevice chose last, 0 at first
int64_t RuntimeCalls();  // of this thread, since the last reset
int64_t LiveObjects();   // of all threads: memory, streams and events that were made and not given back

// Of this thread, the call-th from here on fails; 0: the next.
void FailCall(int64_t call);

// As a kernel that cannot be started: whoever asks for the last error finds it.
void FailLaunch();

// Puts work into a stream's queue, as a kernel launch does. On the default stream (null) it is done at once.
void EnqueueOnStream(void* stream, std::function<void()> work);

// Puts what waits for others there, such as a collective: at the head of its queue it is asked until it says true, and
// told whether it is asked for the first time: each run of a captured graph begins anew.
// Where nothing else can go on meanwhile, it is asked for up to a minute; then the test ends by a check.
void EnqueueWhenReady(void* stream, std::function<bool(bool first)> ready);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_RUNTIME_H_
