#include "runtime/plan/hardware.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/tensor/operation.h"

namespace reprise {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr double kPicosecond = 1e-12;
constexpr double kAdamWBytes = 28;  // per element: gradient, master and two moments read, the last three written

double Bytes(const std::vector<TensorType>& types) {
  double bytes = 0;
  for (const TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

double KernelSeconds(const Hardware& hardware, const KernelSpec& spec) {
  const Operation& operation = GetOperation(spec.operation);
  const double flops = operation.flops ? static_cast<double>(operation.flops(spec.inputs, spec.attributes)) : 0;
  const bool halves = !spec.inputs.empty() && spec.inputs[0].dtype == DType::kBFloat16;
  const double compute = flops / (halves ? hardware.compute_bf16 : hardware.compute_fp32);
  return hardware.kernel_latency + std::max(compute, (Bytes(spec.inputs) + Bytes(spec.outputs)) / hardware.memory);
}

int64_t Nanoseconds(double seconds) { return std::llround(seconds / kNanosecond); }

TransferTime Rate(double latency, double bytes_a_second) {
  return {Nanoseconds(latency), std::max<int64_t>(std::llround(1 / bytes_a_second / kPicosecond), 1)};
}

}  // namespace

std::vector<std::pair<std::string, double*>> NumbersOf(Hardware* hardware) {
  return {{"compute_fp32", &hardware->compute_fp32},
          {"compute_bf16", &hardware->compute_bf16},
          {"memory", &hardware->memory},
          {"kernel_latency", &hardware->kernel_latency},
          {"link", &hardware->link},
          {"network", &hardware->network},
          {"link_latency", &hardware->link_latency},
          {"host", &hardware->host},
          {"disk", &hardware->disk},
          {"device_memory", &hardware->device_memory},
          {"ranks_per_host", &hardware->ranks_per_host}};
}

absl::Status CheckHardware(const Hardware& hardware) {
  // Far beyond any machine, and within what nanoseconds and picoseconds in 64 bits can say.
  constexpr double kLongestLatency = 1;  // seconds
  constexpr double kSlowest = 1e6;       // a second
  constexpr double kFastest = 1e21;
  Hardware copy = hardware;
  for (const auto& [name, number] : NumbersOf(&copy)) {
    const bool latency = absl::EndsWith(name, "latency");
    const bool count = name == "ranks_per_host";
    if (std::isnan(*number) || *number < 0 || (*number == 0 && !latency)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "hardware ", hardware.name, ": ", name, " is ", *number == 0 ? "missing" : "not a positive number",
          "; give it in ", latency ? "seconds" : "units a second, or bytes"));
    }
    const double least = latency || count ? 0 : kSlowest;
    const double most = latency ? kLongestLatency : kFastest;
    if (*number >= least && *number <= most) continue;
    return absl::InvalidArgumentError(absl::StrCat("hardware ", hardware.name, ": ", name, " is ", *number,
                                                   "; it must be from ", least, " to ", most,
                                                   latency ? " seconds" : " (FLOP/s, bytes/s or bytes)"));
  }
  if (hardware.ranks_per_host != std::floor(hardware.ranks_per_host) || hardware.ranks_per_host > 1e6) {
    return absl::InvalidArgumentError(absl::StrCat("hardware ", hardware.name, ": ranks_per_host is ",
                                                   hardware.ranks_per_host, "; give whole ranks"));
  }
  return absl::OkStatus();
}

MachineTimes EstimateTimes(const Hardware& hardware, const std::vector<KernelSpec>& kernels, int ranks) {
  MachineTimes times;
  for (const KernelSpec& spec : kernels) {
    times.kernel_ns[spec.ToString()] = std::max<int64_t>(Nanoseconds(KernelSeconds(hardware, spec)), 1);
  }
  // One rank gathers from itself: a copy within device memory, which reads and writes.
  double collective = hardware.memory / 2;
  if (ranks > 1) {
    const double ring = ranks > hardware.ranks_per_host ? std::min(hardware.link, hardware.network) : hardware.link;
    collective = ring * ranks / (ranks - 1);
  }
  const double latency = ranks > 1 ? hardware.link_latency : hardware.kernel_latency;
  times.transfer[static_cast<size_t>(Stream::kGather)] = Rate(latency, collective);
  times.transfer[static_cast<size_t>(Stream::kReduce)] = Rate(latency, collective);
  times.transfer[static_cast<size_t>(Stream::kOffload)] = Rate(hardware.kernel_latency, hardware.host);
  times.transfer[static_cast<size_t>(Stream::kReload)] = Rate(hardware.kernel_latency, hardware.host);
  times.update_picoseconds_per_element =
      std::max<int64_t>(std::llround(kAdamWBytes / hardware.memory / kPicosecond), 1);
  times.scalars_ns = Nanoseconds(latency);
  return times;
}

}  // namespace reprise
