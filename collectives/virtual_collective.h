// A collective on a virtual clock: it starts when the last rank has come to it, and ends for all together.
//
//   std::vector<VirtualStreams> ranks(2, VirtualStreams(0));
//   ranks[1].Enqueue(Stream::kReduce, 70);
//   RunVirtualCollective(absl::MakeSpan(ranks), Stream::kReduce, 30);   // [70, 100) on both
//
// Collectives of one stream meet in the order of the calls, as those of one Sequence of a Communicator do.
#ifndef REPRISE_COLLECTIVES_VIRTUAL_COLLECTIVE_H_
#define REPRISE_COLLECTIVES_VIRTUAL_COLLECTIVE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "device/virtual_streams.h"

namespace reprise {

// Of all `ranks`, each with its waits on `stream` already made. `duration_ns` counts from the common start.
VirtualSpan RunVirtualCollective(absl::Span<VirtualStreams> ranks, Stream stream, int64_t duration_ns);

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_VIRTUAL_COLLECTIVE_H_
