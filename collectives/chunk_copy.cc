#include "collectives/chunk_copy.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/chunk_copy.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace reprise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void CopyVectors(uint8_t* to, const uint8_t* from, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto a = hn::LoadU(d, from + i);
    const auto b = hn::LoadU(d, from + i + lanes);
    const auto c = hn::LoadU(d, from + i + 2 * lanes);
    const auto e = hn::LoadU(d, from + i + 3 * lanes);
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes);
    hn::StoreU(c, d, to + i + 2 * lanes);
    hn::StoreU(e, d, to + i + 3 * lanes);
  }
  if (i < bytes) std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

}  // namespace HWY_NAMESPACE
}  // namespace reprise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise {

HWY_EXPORT(CopyVectors);

void CopyChunk(std::byte* to, const std::byte* from, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(CopyVectors)(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from), bytes);
}

}  // namespace reprise
#endif  // HWY_ONCE
