#include "device/cpu/cpu_device.h"

#include <omp.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace cpu {
namespace {

// The widest vector or matrix instructions that kernels can choose here.
const char* InstructionSet() {
#if defined(__x86_64__)
  constexpr unsigned kAmxTile = 1u << 24;  // leaf 7, edx
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxTile) != 0) return "AMX";
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "SSE2";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "no vector instructions";
#endif
}

}  // namespace

std::string CpuDevice::Description() const {
  std::string text =
      absl::StrCat("cpu, ", options_.threads, options_.threads == 1 ? " thread, " : " threads, ", InstructionSet());
  if (options_.stream_order.random) absl::StrAppend(&text, ", streams in random order ", options_.stream_order.seed);
  return text;
}

absl::StatusOr<std::byte*> CpuDevice::TakeMemory(int64_t bytes) {
  ASSIGN_OR_RETURN(HostMemory memory, HostMemory::Take("memory of the device", bytes, /*touch=*/true));
  return more_.emplace_back(std::move(memory)).data();
}

absl::Status CpuDevice::CopyToDevice(std::byte* to, absl::Span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyToHost(absl::Span<std::byte> to, const std::byte* from) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
  return absl::OkStatus();
}

}  // namespace cpu

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("threads must be at least 1, not ", options.threads));
  }
  // A product that was made for more threads than it gets leaves parts of its output unwritten.
  if (options.threads > omp_get_thread_limit()) {
    return absl::InvalidArgumentError(absl::StrCat("threads=", options.threads, " is more than OMP_THREAD_LIMIT=",
                                                   omp_get_thread_limit(), " allows; lower --threads or unset it"));
  }
  if (!(options.deadline_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("the deadline must be above 0 s, not ", options.deadline_seconds));
  }
  ASSIGN_OR_RETURN(HostMemory arena, HostMemory::Take("the arena", options.arena_bytes, options.touch_arena));
  if (options.stream_order.random) return cpu::MakeRandomOrderDevice(options, std::move(arena));
  return cpu::MakeAsyncDevice(options, std::move(arena));
}

}  // namespace reprise
