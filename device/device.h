// Device: the seam between the runtime and the hardware. Streams, events, an arena of device memory, asynchronous
// copies.
//
// A step is a sequence of Enqueue, Record and Wait calls from one thread (the issuing thread), followed by Synchronize:
//
//   device.Enqueue(Stream::kCompute, &forward);       // runs after all that stands before it on kCompute
//   device.Record(Stream::kCompute, event);
//   device.Wait(Stream::kOffload, event);             // what follows on kOffload starts after `forward` is done
//   device.Enqueue(Stream::kOffload, &copy);
//   RETURN_IF_ERROR(device.Synchronize());            // the host waits for every stream
//
// Guarantees: work on one stream runs in the order of its calls and never overlaps; streams are not ordered among each
// other but by events. None of Enqueue, Record, Wait allocates memory or waits for the work; a full queue makes Enqueue
// wait for room. Work objects belong to the caller and must live until the next Synchronize returns.
#ifndef REPRISE_DEVICE_DEVICE_H_
#define REPRISE_DEVICE_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/completion.h"

namespace reprise {

enum class Stream : uint8_t { kCompute, kGather, kReduce, kOffload, kReload };
inline constexpr int kStreamCount = 5;
inline constexpr std::array<Stream, kStreamCount> kAllStreams = {Stream::kCompute, Stream::kGather, Stream::kReduce,
                                                                 Stream::kOffload, Stream::kReload};
const char* StreamName(Stream stream);  // "compute", "gather", ...

// When a Work ran, in nanoseconds since the last ResetStatistics.
struct WorkTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // of a started completion too
};

// What a stream runs. `run` is called in the stream's turn; an error stops the device (see Synchronize). Where
// `completion` is set, `run` only starts the work, and the stream goes on once `completion` is done: that is how a
// collective keeps its stream waiting without keeping a core busy.
struct Work {
  std::function<absl::Status()> run;
  Completion* completion = nullptr;
  // Called in the stream's turn after all of it went well, before what stands behind it. Optional.
  std::function<void()> done = nullptr;
  const char* label = "";      // for messages: "backward of h.3"
  WorkTimes* times = nullptr;  // filled in by the time Synchronize returns OK. Optional
};

// Seconds for which a stream stood still, since the last ResetStatistics, waiting for events of each other stream:
// waited_seconds[of][on] is the time of stream `of` spent on an event that was recorded on stream `on`. Zero in random
// order, where no stream waits. A stream is busy while its work runs, a started completion included.
struct StreamStatistics {
  std::array<std::array<double, kStreamCount>, kStreamCount> waited_seconds{};
  std::array<double, kStreamCount> busy_seconds{};
};

class Device {
 public:
  using Event = int32_t;  // 0 .. event_count - 1

  virtual ~Device() = default;
  virtual std::string Description() const = 0;  // "cpu, 2 threads, AVX2"

  // Device memory: one block, taken once by the factory, zeros at first, aligned to 4096 bytes. Owned by the device.
  virtual std::byte* arena() = 0;
  virtual int64_t arena_bytes() const = 0;

  // What of a GPU's memory is in use beside this arena: CUDA's own, buffers of collectives, other processes. 0 on a
  // cpu.
  virtual int64_t bytes_beside_arena() const = 0;

  // More memory of the device, zeros at first, aligned to 256 bytes: a little, for what changes from step to step.
  // Owned by the device, for as long as it lives. Not inside a step.
  virtual absl::StatusOr<std::byte*> TakeMemory(int64_t bytes) = 0;

  // Whether the host may read and write the device's memory itself, between steps. In any case it may by these two,
  // which return when the bytes are there. Not inside a step.
  virtual bool memory_is_of_host() const = 0;
  virtual absl::Status CopyToDevice(std::byte* to, absl::Span<const std::byte> from) = 0;
  virtual absl::Status CopyToHost(absl::Span<std::byte> to, const std::byte* from) = 0;

  // Grows the number of events to at least `count`. Not inside a step.
  virtual void ReserveEvents(int count) = 0;

  virtual void Enqueue(Stream stream, const Work* work) = 0;
  virtual void Record(Stream stream, Event event) = 0;
  // Holds `stream` until the work before the latest Record of `event` is done. An event never recorded holds nothing.
  virtual void Wait(Stream stream, Event event) = 0;

  // Waits until every stream is empty. The first error of any Work since the last call is returned; work that was
  // enqueued behind an error is skipped. Errors of completions count. Thread that calls: the issuing thread.
  virtual absl::Status Synchronize() = 0;

  // A step that is the same each time, started as a whole (CUDA graphs). Between the first two calls nothing runs: what
  // Enqueue, Record and Wait ask for is kept, completions and times of works aside. Replay starts all of it, as often
  // as it is called; what works read of their step they find in the device's memory. Unimplemented where there is no
  // such thing. An error within the kept step ends it and comes back from EndCapture, which gives its number.
  virtual absl::Status BeginCapture();
  virtual absl::StatusOr<int> EndCapture();
  virtual void Replay(int captured);

  virtual StreamStatistics Statistics() const = 0;  // after Synchronize
  virtual void ResetStatistics() = 0;
};

// How the streams of a `cpu` device run.
struct StreamOrder {
  bool random = false;  // all streams in the issuing thread, inside Synchronize, in an order drawn from `seed`
  uint64_t seed = 0;
};

struct CpuDeviceOptions {
  int64_t arena_bytes = 0;
  int threads = 1;  // compute threads (OpenMP); only the compute stream uses more than one
  StreamOrder stream_order = {};
  double deadline_seconds = 300;  // the longest that Synchronize waits for a completion that does not come
  bool touch_arena = true;        // write every page once
};

// The device `cpu`: each stream is a worker thread with a queue. ResourceExhausted if the arena cannot be had.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options);

}  // namespace reprise

#endif  // REPRISE_DEVICE_DEVICE_H_
