// Runs the kernels of runtime/tensor/cuda on the CPU: a fiber for each thread of a block, one block after the other.
// The order of blocks, and which thread goes on next, are drawn from a seed: a kernel whose result depends on either,
// or that lacks a barrier, gives other bits under another seed. Shared memory is of exactly the size asked for and full
// of NaN at first, so that the address sanitizer and the results show what is wrong.
//
//   SetThreadOrder(seed);
//   Launch({.blocks = 3, .threads = 64}, MyKernel, x);   // has run when this returns
//
// A thread that ends while others wait for it ends the process by a check: a GPU would hang or go astray.
#ifndef REPRISE_TESTS_TOOLS_CUDA_FIBERS_H_
#define REPRISE_TESTS_TOOLS_CUDA_FIBERS_H_

#include <cstdint>

namespace reprise::testing {

// Of the launches that follow, in every thread. Not while one runs.
void SetThreadOrder(uint64_t seed);

// Launches since the last SetThreadOrder.
int64_t LaunchCount();

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CUDA_FIBERS_H_
