// Random bits for dropout: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), keyed by
// (seed, step, operation), counted by (sequence in the global step, group of four elements). The same on every device,
// for any number of ranks, and again in a recomputation, without saved state.
//
//   RandomKey key = MakeRandomKey(seed, step, OperationNumber(block, salt));
//   std::array<uint32_t, 4> bits = RandomBits(key, sequence, element / 4);   // bits[element % 4]
//   bool keep = bits[element % 4] >= DropThreshold(0.1);
#ifndef REPRISE_RUNTIME_TENSOR_PHILOX_H_
#define REPRISE_RUNTIME_TENSOR_PHILOX_H_

#include <Random123/philox.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace reprise {

struct RandomKey {
  uint32_t low = 0;
  uint32_t high = 0;
};

// Every operation of a model that draws has its own number: its block's index and a salt that is unique in the block.
constexpr uint64_t OperationNumber(int64_t block, int64_t salt) {
  return (static_cast<uint64_t>(block) << 16) | static_cast<uint64_t>(salt);
}

// SplitMix64's finalizer (Steele et al. 2014): a bijection that spreads every input bit.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

constexpr RandomKey MakeRandomKey(uint64_t seed, int64_t step, uint64_t operation) {
  const uint64_t mixed = MixBits(MixBits(MixBits(seed + 0x9E3779B97F4A7C15ULL) + static_cast<uint64_t>(step)) +
                                 operation + 0x9E3779B97F4A7C15ULL);
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

REPRISE_HOST_DEVICE inline std::array<uint32_t, 4> RandomBits(RandomKey key, int64_t sequence, int64_t group) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<uint32_t>(group), static_cast<uint32_t>(static_cast<uint64_t>(group) >> 32),
       static_cast<uint32_t>(sequence), static_cast<uint32_t>(static_cast<uint64_t>(sequence) >> 32)}};
  const r123::Philox4x32::ctr_type bits = r123::Philox4x32()(counter, {{key.low, key.high}});
  return {bits[0], bits[1], bits[2], bits[3]};
}

// An element is dropped when its bits are below this: probability p in steps of 2^-32. 0 <= p < 1.
inline uint32_t DropThreshold(double p) {
  return static_cast<uint32_t>(std::llround(std::ldexp(p, 32)) > 0xFFFFFFFFLL ? 0xFFFFFFFFLL
                                                                              : std::llround(std::ldexp(p, 32)));
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_PHILOX_H_
