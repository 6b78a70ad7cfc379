#include "device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "device/cgroup.h"
#include "device/poison.h"

namespace reprise {
namespace {

int64_t MemAvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {  // "MemAvailable:   24186704 kB"
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1) return kibibytes * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

absl::Status TooLarge(const std::string& what, int64_t bytes, int64_t available) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", bytes, " bytes (", FormatBytes(bytes), ") of host memory and ", available, " (",
                   FormatBytes(available),
                   ") are available: ask for less (more ranks, a smaller micro-batch, checkpoints), or free memory"));
}

void TouchPages(std::byte* data, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;  // Linux 5.14; much faster than a fault for each page
#endif
  for (int64_t offset = 0; offset < bytes; offset += kPageBytes) {
    *const_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
}

}  // namespace

int64_t AvailableHostBytes() {
  const int64_t machine = MemAvailableBytes();
  return std::min(machine, ReadCgroupLimits().memory_left_bytes.value_or(machine));
}

int64_t PeakResidentBytes() {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {  // "VmHWM:	  512204 kB"
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld kB", &kibibytes) == 1) return kibibytes * 1024;
  }
  return 0;
}

absl::StatusOr<HostMemory> HostMemory::Take(const std::string& what, int64_t bytes, bool touch) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - kPageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, " cannot have ", bytes, " bytes"));
  }
  if (bytes == 0) return HostMemory();
  const int64_t whole = RoundUp(bytes, kPageBytes);
  const int64_t available = AvailableHostBytes();
  if (whole > available) return TooLarge(what, whole, available);
  void* address = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return TooLarge(what, whole, available);
  HostMemory memory(static_cast<std::byte*>(address), whole);
  madvise(address, whole, MADV_HUGEPAGE);  // a wish: a kernel without large pages refuses it, and nothing is lost
  if (touch) TouchPages(memory.data_, whole);
  return memory;
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  UnpoisonBytes(data_, bytes_);  // the next owner of these addresses would inherit the marks
  munmap(data_, bytes_);
}

bool HostMemory::Lock() { return data_ == nullptr || mlock(data_, bytes_) == 0; }

}  // namespace reprise
