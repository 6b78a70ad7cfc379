// VirtualStreams: the streams of one rank on a virtual clock. The same words as a Device (enqueue, record, wait), but
// what is enqueued is a duration: nothing runs, no memory is taken, and every time is known when the call returns.
//
//   VirtualStreams rank(/*events=*/1);
//   rank.Enqueue(Stream::kCompute, 100);              // [0, 100)
//   rank.Record(Stream::kCompute, 0);
//   rank.Wait(Stream::kOffload, 0);
//   rank.Enqueue(Stream::kOffload, 30);               // [100, 130)
//   rank.end_ns();                                    // 130
//
// Nanoseconds from the start of the step. Times and durations are not negative and their sums stay within 64 bits: the
// caller's affair. For one thread.
#ifndef REPRISE_DEVICE_VIRTUAL_STREAMS_H_
#define REPRISE_DEVICE_VIRTUAL_STREAMS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace reprise {

struct VirtualSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

class VirtualStreams {
 public:
  using Event = Device::Event;

  explicit VirtualStreams(int32_t events);

  // When what is enqueued next on `stream` starts.
  int64_t ready_ns(Stream stream) const { return free_ns_[static_cast<size_t>(stream)]; }

  // Occupies `stream` for `duration_ns` from ready_ns(stream), or from `not_before_ns` where that is later.
  VirtualSpan Enqueue(Stream stream, int64_t duration_ns, int64_t not_before_ns = 0);
  void Record(Stream stream, Event event);
  // An event never recorded holds nothing.
  void Wait(Stream stream, Event event);

  int64_t end_ns() const;  // when every stream is empty

 private:
  std::array<int64_t, kStreamCount> free_ns_{};
  std::vector<int64_t> event_ns_;
};

}  // namespace reprise

#endif  // REPRISE_DEVICE_VIRTUAL_STREAMS_H_
