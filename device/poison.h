// Poison for freed device memory: whoever reads it too late, or before it was written, shows at once.
//
//   PoisonBytes(arena + offset, bytes);     // given back
//   UnpoisonBytes(arena + offset, bytes);   // taken again; the contents stay the poison until they are written
//
// Poisoned bytes are 0xFF: not a number as float32 and as bfloat16. Under AddressSanitizer touching them is reported
// too (in whole groups of 8 bytes). Thread-safe for ranges that do not overlap.
#ifndef REPRISE_DEVICE_POISON_H_
#define REPRISE_DEVICE_POISON_H_

#include <cstddef>
#include <cstdint>

namespace reprise {

void PoisonBytes(std::byte* data, int64_t bytes);
// Only the second half of it: the contents stay, touching them is reported under AddressSanitizer.
void ForbidBytes(std::byte* data, int64_t bytes);
void UnpoisonBytes(std::byte* data, int64_t bytes);

}  // namespace reprise

#endif  // REPRISE_DEVICE_POISON_H_
