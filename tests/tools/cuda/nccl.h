// NCCL's twin, for ranks that are threads: what FindNccl finds in programs that tests build for the CPU. A collective
// stands on a stream of the stand-in for CUDA's runtime (runtime.h); in its turn it starts the same one on a `local`
// communicator, and the stream goes on when that has ended. Nothing is done at once: a communicator opens when all its
// ranks have come, and every other collective stands on its stream only after it was asked for twice.
//
//   ResetNccl({.failing_call = 3});                  // of this thread: its 3rd call of NCCL fails
//   auto communicator = MakeNcclCommunicator(ranks, {});
//
// What would be wrong with the real one ends the test by a check: a call on a communicator that is not ready, two that
// are given up one after the other, one that is destroyed before its end.
#ifndef REPRISE_TESTS_TOOLS_CUDA_NCCL_H_
#define REPRISE_TESTS_TOOLS_CUDA_NCCL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace reprise::testing {

struct NcclOptions {
  int version = 22809;
  int64_t failing_call = -1;        // 0-based; returns an error. Asking for errors is not counted. -1: none
  int64_t failing_collective = -1;  // 0-based, of both sequences; starts well, and is found to have failed in its turn
  bool never_opens = false;         // its communicators wait for ever
};

// Of this thread: each rank has its own.
void ResetNccl(const NcclOptions& options);
int64_t NcclCalls();
int64_t NcclCollectives();

int64_t LiveNcclCommunicators();  // of all threads

// The 128 bytes of an id that a real library makes, opened as LoadNccl does.
absl::StatusOr<std::string> IdOfLibrary(const std::string& file);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_NCCL_H_
