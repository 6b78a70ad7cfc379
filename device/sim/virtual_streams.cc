#include "device/virtual_streams.h"

#include <algorithm>

namespace reprise {

VirtualStreams::VirtualStreams(int32_t events) : event_ns_(static_cast<size_t>(events), 0) {}

VirtualSpan VirtualStreams::Enqueue(Stream stream, int64_t duration_ns, int64_t not_before_ns) {
  int64_t& free_ns = free_ns_[static_cast<size_t>(stream)];
  const int64_t start_ns = std::max(free_ns, not_before_ns);
  free_ns = start_ns + duration_ns;
  return {start_ns, free_ns};
}

void VirtualStreams::Record(Stream stream, Event event) { event_ns_[static_cast<size_t>(event)] = ready_ns(stream); }

void VirtualStreams::Wait(Stream stream, Event event) {
  int64_t& free_ns = free_ns_[static_cast<size_t>(stream)];
  free_ns = std::max(free_ns, event_ns_[static_cast<size_t>(event)]);
}

int64_t VirtualStreams::end_ns() const { return *std::max_element(free_ns_.begin(), free_ns_.end()); }

}  // namespace reprise
