// Hardware: a machine that is not here, by its rates, and the times that follow for what a step is made of. For
// `reprise plan --hardware=NAME`; the files are in hardware/, read by launch/hardware_file.h.
//
//   RETURN_IF_ERROR(CheckHardware(h100));
//   MachineTimes times = EstimateTimes(h100, schedule.kernels, /*ranks=*/64);
//
// A kernel takes kernel_latency + the larger of its floating-point operations at the compute rate and its bytes, inputs
// and outputs once, at the memory rate: the roofline (Williams, Waterman and Patterson 2009). Collectives run on a
// ring: (R - 1) / R of the bytes pass every link once, at the rate of the slowest.
#ifndef REPRISE_RUNTIME_PLAN_HARDWARE_H_
#define REPRISE_RUNTIME_PLAN_HARDWARE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/plan/machine_times.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

struct Hardware {
  std::string name;
  double compute_fp32 = 0;    // floating-point operations a second that products reach, not those of the data sheet
  double compute_bf16 = 0;    // likewise
  double memory = 0;          // bytes a second that streaming kernels reach
  double kernel_latency = 0;  // seconds
  double link = 0;            // bytes a second between two ranks of a host, one way
  double network = 0;         // bytes a second between two hosts, one way, for all ranks of a host together
  double link_latency = 0;    // seconds, of one collective
  double host = 0;            // bytes a second between a device and host memory, one way
  double disk = 0;            // bytes a second of a host's fast disk
  double device_memory = 0;   // bytes
  double ranks_per_host = 0;
};

// Every number of a description, by its name in the file.
std::vector<std::pair<std::string, double*>> NumbersOf(Hardware* hardware);

// InvalidArgument that names the rate: one that is missing (zero), negative or not finite. Latencies may be zero.
absl::Status CheckHardware(const Hardware& hardware);

// `hardware` must pass CheckHardware. Products of bf16 inputs run at the bf16 rate.
MachineTimes EstimateTimes(const Hardware& hardware, const std::vector<KernelSpec>& kernels, int ranks);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_HARDWARE_H_
