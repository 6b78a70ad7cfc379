// The instruction sets that kernels are compiled for: AVX-512, AVX2 with FMA, and what every machine has. The best that
// the machine has is chosen at run time. Included before any header of Highway.
#ifndef REPRISE_RUNTIME_TENSOR_CPU_TARGETS_H_
#define REPRISE_RUNTIME_TENSOR_CPU_TARGETS_H_

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#endif  // REPRISE_RUNTIME_TENSOR_CPU_TARGETS_H_
