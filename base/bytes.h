// Byte counts as people write and read them.
//
//   ParseBytes("1.5GiB")      -> 1610612736
//   FormatBytes(150994944)    -> "144.0 MiB"
#ifndef REPRISE_BASE_BYTES_H_
#define REPRISE_BASE_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace reprise {

// A non-negative number with an optional unit B, KiB, MiB, GiB or TiB (no unit: bytes). Fractions are allowed with a
// unit and rounded down. InvalidArgument for anything else, also for more than 2^62 bytes.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// One decimal and the largest binary unit that leaves at least 1; exact below 1 KiB ("512 B").
std::string FormatBytes(int64_t bytes);

// Smallest multiple of `alignment` (> 0) that is not below `value` (>= 0).
constexpr int64_t RoundUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace reprise

#endif  // REPRISE_BASE_BYTES_H_
