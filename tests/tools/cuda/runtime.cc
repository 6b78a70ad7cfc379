#include "tests/tools/cuda/runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/tools/cuda/graph_run.h"
#include "tests/tools/cuda/streams.h"

namespace {

using reprise::testing::Entry;
using reprise::testing::GraphRun;
using reprise::testing::RuntimeOptions;
using Clock = std::chrono::steady_clock;

struct Runtime {
  RuntimeOptions options;
  std::mt19937_64 random;
  int64_t calls = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  int64_t used_bytes = 0;
  std::map<void*, size_t> device_memory;
  std::set<void*> host_memory;
  std::vector<StandinStream*> streams;  // in the order they were made in
};

std::mutex options_mutex;
RuntimeOptions shared_options;  // of threads that come
std::atomic<int64_t> live_objects = 0;

Runtime NewRuntime() {
  const std::lock_guard lock(options_mutex);
  Runtime runtime;
  runtime.options = shared_options;
  runtime.random.seed(shared_options.seed++);
  return runtime;
}

// Of this thread.
Runtime& TheRuntime() {
  thread_local Runtime runtime = NewRuntime();
  return runtime;
}

cudaError_t Fail(cudaError_t error) {
  TheRuntime().last_error = error;
  return error;
}

// Counts the call; true where it is the one that is to fail.
bool Fails() { return TheRuntime().calls++ == TheRuntime().options.failing_call; }

#define REPRISE_STANDIN_CALL() \
  if (Fails()) return Fail(cudaErrorLaunchFailure)

bool Ready(StandinStream& stream) {
  if (stream.entries.empty()) return false;
  Entry& first = stream.entries.front();
  if (first.ready) return first.ready(!std::exchange(first.asked, true));
  return first.event == nullptr || first.event->done >= first.record;
}

bool AnyAsks() {
  const auto& streams = TheRuntime().streams;
  return std::any_of(streams.begin(), streams.end(),
                     [](const StandinStream* s) { return !s->entries.empty() && s->entries.front().ready; });
}

StandinStream* Draw(const std::vector<StandinStream*>& ready) {
  uint64_t total = 0;
  for (const StandinStream* stream : ready) total += stream->weight;
  uint64_t point = TheRuntime().random() % total;
  for (StandinStream* stream : ready) {
    if (point < stream->weight) return stream;
    point -= stream->weight;
  }
  return ready.back();
}

// Takes entries in a seeded order until `enough`.
template <typename Enough>
void RunUntil(Enough enough) {
  constexpr std::chrono::seconds kPatience{60};
  Runtime& runtime = TheRuntime();
  Clock::time_point last = Clock::now();
  while (!enough()) {
    std::vector<StandinStream*> ready;
    for (StandinStream* stream : runtime.streams) {
      if (Ready(*stream)) ready.push_back(stream);
    }
    if (ready.empty() && AnyAsks() && Clock::now() - last < kPatience) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      continue;
    }
    REPRISE_CHECK(!ready.empty()) << "all streams wait: a GPU would hang";
    last = Clock::now();
    StandinStream* stream = Draw(ready);
    const Entry entry = std::move(stream->entries.front());
    stream->entries.pop_front();
    if (entry.work) entry.work();
  }
}

// Some work goes on while the host asks; it does not wait for what only others can bring about.
template <typename Enough>
void RunSomeUntil(Enough enough) {
  auto left = static_cast<int64_t>(TheRuntime().random() % 4);
  const auto stuck = [] {
    const auto& streams = TheRuntime().streams;
    return AnyAsks() && std::none_of(streams.begin(), streams.end(), [](StandinStream* s) { return Ready(*s); });
  };
  RunUntil([&] { return enough() || left-- == 0 || stuck(); });
}

bool AllEmpty() {
  const auto& streams = TheRuntime().streams;
  return std::all_of(streams.begin(), streams.end(), [](const StandinStream* s) { return s->entries.empty(); });
}

}  // namespace

namespace reprise::testing {

void ResetRuntime(const RuntimeOptions& options) {
  REPRISE_CHECK(LiveObjects() == 0) << LiveObjects() << " objects of the runtime are alive";
  {
    const std::lock_guard lock(options_mutex);
    shared_options = options;
  }
  TheRuntime() = NewRuntime();
}

int CurrentDevice() { return TheRuntime().device; }
int64_t RuntimeCalls() { return TheRuntime().calls; }

int64_t LiveObjects() { return live_objects; }
void FailLaunch() { TheRuntime().last_error = cudaErrorLaunchFailure; }

void FailCall(int64_t call) { TheRuntime().options.failing_call = TheRuntime().calls + call; }

void EnqueueOnStream(void* stream, std::function<void()> work) {
  if (stream == nullptr) return work();  // the default one is never behind
  static_cast<StandinStream*>(stream)->Put({.work = std::move(work)});
}

void EnqueueWhenReady(void* stream, std::function<bool(bool)> ready) {
  static_cast<StandinStream*>(stream)->Put({.ready = std::move(ready)});
}

}  // namespace reprise::testing

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorNoDevice       ? "cudaErrorNoDevice"
         : error == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
                                            : "cudaErrorInvalidValue";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
         : error == cudaErrorLaunchFailure  ? "unspecified launch failure"
                                            : "invalid argument";
}
cudaError_t cudaPeekAtLastError() { return TheRuntime().last_error; }
cudaError_t cudaGetLastError() { return std::exchange(TheRuntime().last_error, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  REPRISE_STANDIN_CALL();
  *count = TheRuntime().options.devices;
  return *count == 0 ? Fail(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  REPRISE_STANDIN_CALL();
  if (device < 0 || device >= TheRuntime().options.devices) return Fail(cudaErrorInvalidDevice);
  TheRuntime().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  REPRISE_STANDIN_CALL();
  *properties = {.name = "stand-in", .major = 9, .minor = 0};
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  REPRISE_STANDIN_CALL();
  const Runtime& runtime = TheRuntime();
  *total = static_cast<size_t>(runtime.options.memory_bytes);
  *free = static_cast<size_t>(runtime.options.memory_bytes - runtime.used_bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  REPRISE_STANDIN_CALL();
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  REPRISE_STANDIN_CALL();
  RunUntil(AllEmpty);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** place, size_t bytes) {
  REPRISE_STANDIN_CALL();
  Runtime& runtime = TheRuntime();
  if (static_cast<int64_t>(bytes) > runtime.options.memory_bytes - runtime.used_bytes) {
    return Fail(cudaErrorMemoryAllocation);
  }
  *place = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*place, 0xFF, bytes);
  runtime.device_memory[*place] = bytes;
  ++live_objects;
  runtime.used_bytes += static_cast<int64_t>(bytes);
  return cudaSuccess;
}

// Giving back goes on where a call fails: as after an error of CUDA, what was made is gone in any case.
cudaError_t cudaFree(void* place) {
  Runtime& runtime = TheRuntime();
  const auto it = runtime.device_memory.find(place);
  if (it == runtime.device_memory.end()) return Fail(cudaErrorInvalidValue);
  runtime.used_bytes -= static_cast<int64_t>(it->second);
  runtime.device_memory.erase(it);
  --live_objects;
  std::free(place);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** place, size_t bytes, unsigned /*flags*/) {
  REPRISE_STANDIN_CALL();
  *place = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*place, 0xFF, bytes);
  TheRuntime().host_memory.insert(*place);
  ++live_objects;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* place) {
  if (TheRuntime().host_memory.erase(place) == 0) return Fail(cudaErrorInvalidValue);
  std::free(place);
  --live_objects;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  reprise::testing::EnqueueOnStream(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  REPRISE_STANDIN_CALL();
  RunUntil(AllEmpty);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* place, int value, size_t bytes, cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  reprise::testing::EnqueueOnStream(stream, [=] { std::memset(place, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int /*priority*/) {
  REPRISE_STANDIN_CALL();
  *stream = new StandinStream;
  // For two seeds in three one stream may be thousands of times slower than another: a copy that comes very late, a
  // collective that comes very early, are then seen.
  if (TheRuntime().options.seed % 3 != 0) (*stream)->weight = uint64_t{1} << TheRuntime().random() % 13;
  TheRuntime().streams.push_back(*stream);
  ++live_objects;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto& streams = TheRuntime().streams;
  streams.erase(std::find(streams.begin(), streams.end(), stream));
  delete stream;
  --live_objects;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  if (stream != nullptr && stream->graph != nullptr) return Fail(cudaErrorStreamCaptureUnsupported);
  if (stream != nullptr) RunUntil([stream] { return stream->entries.empty(); });
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  if (stream != nullptr && stream->graph != nullptr) return Fail(cudaErrorStreamCaptureUnsupported);
  RunSomeUntil([stream] { return stream->entries.empty(); });
  return stream->entries.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  REPRISE_STANDIN_CALL();
  const bool in_graph = event->graph.lock() != nullptr;
  if (stream->graph == nullptr && in_graph) {
    stream->graph = event->graph.lock();
    stream->graph->lanes.insert(stream);
  }
  if (stream->graph == nullptr) {
    stream->Put({.event = event->self, .record = event->issued});
    return cudaSuccess;
  }
  if (event->graph.lock() != stream->graph) return Fail(cudaErrorStreamCaptureIsolation);
  stream->graph->nodes.push_back({.lane = stream, .entry = {}, .wait = stream->graph->records.at(event)});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  REPRISE_STANDIN_CALL();
  reprise::testing::EnqueueOnStream(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  REPRISE_STANDIN_CALL();
  if (stream->graph != nullptr) return Fail(cudaErrorInvalidValue);
  stream->graph = std::make_shared<StandinGraph>();
  stream->graph->origin = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->graph != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  REPRISE_STANDIN_CALL();
  const std::shared_ptr<StandinGraph> captured = stream->graph;
  if (captured == nullptr || captured->origin != stream) return Fail(cudaErrorInvalidValue);
  bool joined = true;
  for (StandinStream* lane : captured->lanes) {
    joined = joined && captured->IsJoined(lane);
    lane->graph.reset();
  }
  stream->graph.reset();
  if (!joined) return Fail(cudaErrorStreamCaptureUnjoined);
  *graph = new StandinGraph(*captured);
  ++live_objects;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long /*flags*/) {
  REPRISE_STANDIN_CALL();
  *exec = new StandinGraphExec{std::make_shared<const StandinGraph>(*graph)};
  ++live_objects;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  const auto run = std::make_shared<GraphRun>(exec->graph);
  reprise::testing::EnqueueWhenReady(stream, [run](bool /*first*/) { return run->GoOn(&TheRuntime().random); });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --live_objects;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  --live_objects;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  REPRISE_STANDIN_CALL();
  const auto made = std::make_shared<StandinEvent>();
  made->self = made;
  *event = made.get();
  ++live_objects;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::shared_ptr<StandinEvent> last = std::move(event->self);
  --live_objects;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  REPRISE_STANDIN_CALL();
  event->graph = stream->graph;
  if (stream->graph != nullptr) {
    StandinGraph& graph = *stream->graph;
    graph.records[event] = static_cast<int>(graph.nodes.size());
    graph.nodes.push_back({.lane = stream, .entry = {}});
    return cudaSuccess;
  }
  const int64_t record = ++event->issued;
  reprise::testing::EnqueueOnStream(stream, [record, recorded = event->self] {
    recorded->done = record;
    recorded->when = Clock::now();
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  REPRISE_STANDIN_CALL();
  RunSomeUntil([event] { return event->done == event->issued; });
  return event->done == event->issued ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  REPRISE_STANDIN_CALL();
  *milliseconds = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return cudaSuccess;
}
