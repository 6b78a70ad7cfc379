// HostMemory: one block of the machine's memory, taken once and given back when the object goes. The arena of the `cpu`
// device and the pool of offloaded bytes stand on it.
//
//   ASSIGN_OR_RETURN(HostMemory block, HostMemory::Take("the arena", bytes, /*touch=*/true));
//   std::byte* first = block.data();
#ifndef REPRISE_DEVICE_HOST_MEMORY_H_
#define REPRISE_DEVICE_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace reprise {

inline constexpr int64_t kPageBytes = 4096;

// Bytes that this process can still take: what the kernel can free (MemAvailable), less where its control groups allow
// less.
int64_t AvailableHostBytes();

// The most memory that this process has had resident at once, all of it (VmHWM of /proc/self/status); 0 where the
// system does not say.
int64_t PeakResidentBytes();

class HostMemory {
 public:
  // Maps exactly `bytes` rounded up to whole pages, zeroed, aligned to kPageBytes; large pages are asked for. `touch`
  // writes every page, so that no later access waits for the kernel. `what` names the block in errors. InvalidArgument
  // below zero; ResourceExhausted, with the bytes needed and available, where the machine or a control group has not as
  // much.
  static absl::StatusOr<HostMemory> Take(const std::string& what, int64_t bytes, bool touch);

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  std::byte* data() const { return data_; }  // nullptr where bytes() is 0
  int64_t bytes() const { return bytes_; }

  // Asks the kernel never to move the block to disk; false where the limit of locked memory forbids it.
  bool Lock();

 private:
  HostMemory(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_DEVICE_HOST_MEMORY_H_
