#include "device/poison.h"

#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace reprise {

void PoisonBytes(std::byte* data, int64_t bytes) {
  if (bytes <= 0) return;
  UnpoisonBytes(data, bytes);  // poisoning twice is allowed
  std::memset(data, 0xFF, static_cast<size_t>(bytes));
  ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
}

void ForbidBytes(std::byte* data, int64_t bytes) {
  if (bytes > 0) ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
}

void UnpoisonBytes(std::byte* data, int64_t bytes) {
  if (bytes > 0) ASAN_UNPOISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
}

}  // namespace reprise
