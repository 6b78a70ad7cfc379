// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): orders drawn from a
// seed.
#ifndef REPRISE_DEVICE_CPU_SPLIT_MIX_H_
#define REPRISE_DEVICE_CPU_SPLIT_MIX_H_

#include <cstdint>

namespace reprise::cpu {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // 0 .. bound - 1. The bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace reprise::cpu

#endif  // REPRISE_DEVICE_CPU_SPLIT_MIX_H_
