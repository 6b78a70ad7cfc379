#include "collectives/virtual_collective.h"

#include <algorithm>

namespace reprise {

VirtualSpan RunVirtualCollective(absl::Span<VirtualStreams> ranks, Stream stream, int64_t duration_ns) {
  int64_t start_ns = 0;
  for (const VirtualStreams& rank : ranks) start_ns = std::max(start_ns, rank.ready_ns(stream));
  for (VirtualStreams& rank : ranks) rank.Enqueue(stream, duration_ns, start_ns);
  return {start_ns, start_ns + duration_ns};
}

}  // namespace reprise
