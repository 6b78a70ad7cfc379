// What stands in a stream's queue, and what an event is.
//
// A position on a stream is a count of entries: position p is reached once the stream's first p entries are done. An
// event is then no object that anybody sets but a mark that the issuing thread keeps: Record notes (stream, entries
// issued so far), and Wait queues that mark on the other stream. That gives the meaning of CUDA's events by
// construction: a Wait holds for the latest Record issued before it, whatever is recorded later.
#ifndef REPRISE_DEVICE_CPU_ENTRY_H_
#define REPRISE_DEVICE_CPU_ENTRY_H_

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "device/device.h"

namespace reprise::cpu {

struct Mark {
  Stream stream;
  uint64_t position;  // 0: never recorded, or recorded on a stream that had no work yet: reached from the start
};

// `work` to run or, where that is null, a hold until `mark` is reached. Trivial, so that a long queue costs no memory
// before it is used.
struct Entry {
  const Work* work;
  Mark mark;
};

// The latest mark of each event. Used by the issuing thread alone.
class EventTable {
 public:
  void Reserve(int count) {
    if (count > static_cast<int>(marks_.size())) marks_.resize(count);
  }
  Mark& operator[](Device::Event event) {
    REPRISE_CHECK(event >= 0 && event < static_cast<int>(marks_.size()))
        << "event " << event << " of " << marks_.size() << ": ReserveEvents comes first";
    return marks_[event];
  }

 private:
  std::vector<Mark> marks_;
};

}  // namespace reprise::cpu

#endif  // REPRISE_DEVICE_CPU_ENTRY_H_
