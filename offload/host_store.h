// HostStore: the seam behind which offloaded bytes live: memory of the host (HostPool), or a file on a fast disk.
//
//   RETURN_IF_ERROR(store.Write(offset, {arena + boundary, bytes}));   // on the offload stream
//   RETURN_IF_ERROR(store.Read(offset, {arena + boundary, bytes}));    // on the reload stream
//
// A store is one range of bytes, 0 .. bytes() - 1; which item lies where is decided by the plan's layout. Reaching
// beyond the range ends the process. Thread-safe for ranges that do not overlap; a Read sees the Writes that are
// ordered before it.
#ifndef REPRISE_OFFLOAD_HOST_STORE_H_
#define REPRISE_OFFLOAD_HOST_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace reprise {

class HostStore {
 public:
  virtual ~HostStore() = default;
  virtual std::string Description() const = 0;  // "host memory, 144.0 MiB, pinned"
  virtual int64_t bytes() const = 0;

  // The whole range as memory, for devices that copy from and to it themselves; nullptr where it is not in memory.
  virtual std::byte* data() = 0;

  // Return once the bytes have been taken or given, in the order of the current stream where the device is a GPU.
  // Neither allocates.
  virtual absl::Status Write(int64_t offset, absl::Span<const std::byte> from) = 0;
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> to) = 0;
};

}  // namespace reprise

#endif  // REPRISE_OFFLOAD_HOST_STORE_H_
