// A described machine for plans in tests: compute so slow that recompute costs, and transfers that show beside it.
//
//   EstimateTimes(SlowMachine(/*link=*/5e8, /*host=*/5e8), schedule.kernels, ranks)
#ifndef REPRISE_TESTS_TOOLS_SLOW_MACHINE_H_
#define REPRISE_TESTS_TOOLS_SLOW_MACHINE_H_

#include "runtime/plan/hardware.h"

namespace reprise::testing {

// In bytes a second; `link`: between ranks, all in one host; `host`: to and from its memory.
inline Hardware SlowMachine(double link, double host) {
  return {.name = "slow",
          .compute_fp32 = 1e9,
          .compute_bf16 = 2e9,
          .memory = 1e9,
          .kernel_latency = 1e-6,
          .link = link,
          .network = link,
          .link_latency = 1e-6,
          .host = host,
          .disk = 1e8,
          .device_memory = 1e9,
          .ranks_per_host = 4};
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_SLOW_MACHINE_H_
