#include "tests/tools/cuda/fibers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/launch.h"
#include "device/cuda/threads.h"
#include "tests/tools/cuda/fiber.h"
#include "tests/tools/cuda/runtime.h"

namespace reprise {
namespace {

using cuda::kWarp;
using cuda::LaunchShape;

std::atomic<uint64_t> order_seed = 0;
std::atomic<int64_t> launches = 0;

// One block of a grid while it runs.
class Block {
 public:
  Block(const LaunchShape& shape, int64_t x, int64_t y, std::byte* shared, std::mt19937_64* random)
      : shape_(shape), x_(x), y_(y), shared_(shared), random_(*random) {}

  void Run(const std::function<void()>& body);

  const LaunchShape& shape() const { return shape_; }
  int64_t x() const { return x_; }
  int64_t y() const { return y_; }
  std::byte* shared() const { return shared_; }
  int thread() const { return current_; }

  void WaitAtBarrier();
  uint64_t Exchange(uint64_t bits, int lane);
  void Together(void (*function)(void* const*), void* record);

 private:
  struct ThreadState {
    uint64_t bits = 0;  // given to the other lanes
    int lane = 0;       // whose bits it wants
    uint64_t received = 0;
    void (*together)(void* const*) = nullptr;  // what it wants to do with the other lanes; null: an exchange
    void* record = nullptr;
  };

  void Release(int first, int count);
  bool LastOfWarp();

  LaunchShape shape_;
  int64_t x_;
  int64_t y_;
  std::byte* shared_;
  std::mt19937_64& random_;
  std::vector<ThreadState> threads_;
  std::vector<int> ready_;
  std::vector<int> at_exchange_;  // by warp
  int at_barrier_ = 0;
  int current_ = 0;
};

thread_local Block* running_block = nullptr;

Block& Running() {
  REPRISE_CHECK(running_block != nullptr) << "a word of a kernel outside a kernel";
  return *running_block;
}

void Block::Run(const std::function<void()>& body) {
  const int count = shape_.threads;
  threads_.assign(static_cast<size_t>(count), {});
  at_exchange_.assign(static_cast<size_t>(count / kWarp), 0);
  ready_.resize(static_cast<size_t>(count));
  std::iota(ready_.begin(), ready_.end(), 0);
  std::deque<testing::Fiber> fibers;
  for (int i = 0; i < count; ++i) fibers.emplace_back(body);
  running_block = this;
  int done = 0;
  while (!ready_.empty()) {
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    current_ = ready_.back();
    ready_.pop_back();
    fibers[static_cast<size_t>(current_)].Resume();
    if (fibers[static_cast<size_t>(current_)].done()) ++done;
  }
  running_block = nullptr;
  REPRISE_CHECK(done == count) << done << " of the " << count << " threads of block " << x_ << ", " << y_
                               << " have ended, " << at_barrier_
                               << " wait at a barrier and the rest for lanes of their warps: this hangs on a GPU";
}

void Block::Release(int first, int count) {
  for (int i = first; i < first + count; ++i) ready_.push_back(i);
}

void Block::WaitAtBarrier() {
  if (++at_barrier_ == shape_.threads) {
    at_barrier_ = 0;
    Release(0, shape_.threads);
  }
  testing::Fiber::Yield();
}

// Whether the running thread is the last of its warp to come to where the others wait. All must want the same.
bool Block::LastOfWarp() {
  const int warp = current_ / kWarp;
  if (++at_exchange_[static_cast<size_t>(warp)] < kWarp) return false;
  at_exchange_[static_cast<size_t>(warp)] = 0;
  for (int i = warp * kWarp; i < (warp + 1) * kWarp; ++i) {
    REPRISE_CHECK(threads_[static_cast<size_t>(i)].together == threads_[static_cast<size_t>(current_)].together)
        << "lanes of a warp are at different instructions";
  }
  return true;
}

uint64_t Block::Exchange(uint64_t bits, int lane) {
  const int self = current_;
  const int warp = self / kWarp;
  REPRISE_CHECK(lane >= 0 && lane < kWarp) << "lane " << lane << " of a warp";
  threads_[static_cast<size_t>(self)].bits = bits;
  threads_[static_cast<size_t>(self)].lane = lane;
  threads_[static_cast<size_t>(self)].together = nullptr;
  if (LastOfWarp()) {
    for (int i = warp * kWarp; i < (warp + 1) * kWarp; ++i) {
      ThreadState& thread = threads_[static_cast<size_t>(i)];
      thread.received = threads_[static_cast<size_t>(warp * kWarp + thread.lane)].bits;
    }
    Release(warp * kWarp, kWarp);
  }
  testing::Fiber::Yield();
  return threads_[static_cast<size_t>(self)].received;
}

void Block::Together(void (*function)(void* const*), void* record) {
  const int warp = current_ / kWarp;
  threads_[static_cast<size_t>(current_)].together = function;
  threads_[static_cast<size_t>(current_)].record = record;
  if (LastOfWarp()) {
    std::array<void*, kWarp> records;
    for (int i = 0; i < kWarp; ++i) {
      records[static_cast<size_t>(i)] = threads_[static_cast<size_t>(warp * kWarp + i)].record;
    }
    function(records.data());
    Release(warp * kWarp, kWarp);
  }
  testing::Fiber::Yield();
}

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

void RunNow(const LaunchShape& shape, const std::function<void()>& body) {
  constexpr int64_t kMostBlocks = INT64_C(0x7FFFFFFF);
  REPRISE_CHECK(shape.threads > 0 && shape.threads <= 1024 && shape.threads % kWarp == 0)
      << shape.threads << " threads";
  REPRISE_CHECK(shape.blocks <= kMostBlocks && shape.blocks_y < 65536) << shape.blocks << " x " << shape.blocks_y;
  REPRISE_CHECK(shape.shared_bytes <= cuda::kMostSharedBytes) << shape.shared_bytes << " bytes of shared memory";
  std::mt19937_64 random(order_seed + static_cast<uint64_t>(launches++));
  std::vector<int64_t> order(static_cast<size_t>(shape.blocks * shape.blocks_y));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const auto bytes = static_cast<size_t>(shape.shared_bytes);
  for (const int64_t index : order) {
    // Anew for each block: the address sanitizer sees its end, and nothing is left over from another block.
    const std::unique_ptr<std::byte, Free> shared(static_cast<std::byte*>(std::malloc(std::max<size_t>(bytes, 1))));
    std::memset(shared.get(), 0xFF, bytes);
    Block(shape, index % shape.blocks, index / shape.blocks, shared.get(), &random).Run(body);
  }
}

}  // namespace

namespace cuda {

int Thread() { return Running().thread(); }
int Threads() { return Running().shape().threads; }
int64_t BlockX() { return Running().x(); }
int64_t BlockY() { return Running().y(); }
int64_t BlocksX() { return Running().shape().blocks; }
void Barrier() { Running().WaitAtBarrier(); }
std::byte* SharedBytes() { return Running().shared(); }
uint64_t BitsFromLane(uint64_t bits, int lane) { return Running().Exchange(bits, lane); }
void Together(void (*function)(void* const*), void* record) { Running().Together(function, record); }

void RunThreads(const LaunchShape& shape, const std::function<void()>& body) {
  if (CurrentStream() == nullptr) return RunNow(shape, body);
  testing::EnqueueOnStream(CurrentStream(), [shape, body] { RunNow(shape, body); });
}

}  // namespace cuda

namespace testing {

void SetThreadOrder(uint64_t seed) {
  order_seed = seed;
  launches = 0;
}

int64_t LaunchCount() { return launches; }

}  // namespace testing
}  // namespace reprise
