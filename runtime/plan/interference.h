// Interference: compute time that a transfer costs because its stream shares cores with the compute stream.
#ifndef REPRISE_RUNTIME_PLAN_INTERFERENCE_H_
#define REPRISE_RUNTIME_PLAN_INTERFERENCE_H_

#include <cstdint>

#include "runtime/plan/profile.h"

namespace reprise {

// Nanoseconds by which a transfer of `transfer_ns` lengthens the next compute step, halves rounded up.
inline int64_t LostTo(const Profile& profile, Stream stream, int64_t transfer_ns) {
  constexpr __int128 kMillion = 1'000'000;
  const __int128 product =
      static_cast<__int128>(transfer_ns) * profile.interference_millionths[static_cast<size_t>(stream)];
  return static_cast<int64_t>((product + kMillion / 2) / kMillion);
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_INTERFERENCE_H_
