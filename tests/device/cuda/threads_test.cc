// The words that kernels are written in, as the fibers run them: what the tests of all other kernels stand on.
#include "device/cuda/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "device/cuda/launch.h"
#include "tests/tools/cuda/fibers.h"

namespace reprise {
namespace {

using cuda::Launch;

void CountVisits(int* visits) {
  ++visits[(cuda::BlockY() * cuda::BlocksX() + cuda::BlockX()) * cuda::Threads() + cuda::Thread()];
}

TEST(CudaThreads, EachThreadOfEachBlockRunsOnce) {
  std::vector<int> visits(3 * 2 * 64);
  Launch({.blocks = 3, .blocks_y = 2, .threads = 64}, CountVisits, visits.data());
  EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
}

TEST(CudaThreads, GridWithoutBlocksRunsNothing) {
  testing::SetThreadOrder(0);
  Launch({.blocks = 0}, CountVisits, static_cast<int*>(nullptr));
  EXPECT_EQ(testing::LaunchCount(), 0);
}

// Each thread reads what its neighbour wrote before the barrier.
void Rotate(const float* x, float* y) {
  auto* shared = cuda::Shared<float>();
  shared[cuda::Thread()] = x[cuda::Thread()];
  cuda::Barrier();
  y[cuda::Thread()] = shared[(cuda::Thread() + 1) % cuda::Threads()];
}

void RotateWithoutBarrier(const float* x, float* y) {
  auto* shared = cuda::Shared<float>();
  shared[cuda::Thread()] = x[cuda::Thread()];
  y[cuda::Thread()] = shared[(cuda::Thread() + 1) % cuda::Threads()];
}

std::vector<float> Rotated(void (*kernel)(const float*, float*), uint64_t seed) {
  testing::SetThreadOrder(seed);
  std::vector<float> x(96);
  std::iota(x.begin(), x.end(), 1.0F);
  std::vector<float> y(x.size());
  Launch({.threads = 96, .shared_bytes = 96 * sizeof(float)}, kernel, x.data(), y.data());
  return y;
}

TEST(CudaThreads, BarrierOrdersSharedMemory) {
  std::vector<float> expected(96);
  std::iota(expected.begin(), expected.end(), 2.0F);
  expected.back() = 1;
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(Rotated(Rotate, seed), expected);
}

TEST(CudaThreads, MissingBarrierIsSeen) {
  int with_nan = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> y = Rotated(RotateWithoutBarrier, seed);
    if (std::any_of(y.begin(), y.end(), [](float value) { return std::isnan(value); })) ++with_nan;
  }
  EXPECT_EQ(with_nan, 20);
}

void RecordOrder(std::vector<int64_t>* order) {
  if (cuda::Thread() == 0) order->push_back(cuda::BlockX());
}

TEST(CudaThreads, BlocksRunInAnOrderOfTheSeed) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    testing::SetThreadOrder(seed);
    std::vector<int64_t> order;
    Launch({.blocks = 8, .threads = 32}, RecordOrder, &order);
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 5u);
}

void ReverseLanes(const double* x, double* y) {
  y[cuda::Thread()] = cuda::FromLane(x[cuda::Thread()], cuda::kWarp - 1 - cuda::Lane());
}

TEST(CudaThreads, LanesExchangeWithinTheirWarp) {
  std::vector<double> x(64);
  std::iota(x.begin(), x.end(), 0.0);
  std::vector<double> y(x.size());
  Launch({.threads = 64}, ReverseLanes, x.data(), y.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], i / 32 * 32 + 31 - i % 32) << i;
}

void BarrierOfSome() {
  if (cuda::Thread() < 40) cuda::Barrier();
}

void ExchangeOfSome(float* y) {
  if (cuda::Thread() != 3) y[cuda::Thread()] = cuda::FromLane(1.0F, 0);
}

TEST(CudaThreadsDeathTest, ThreadsThatWaitForTheEndedEndTheProcess) {
  EXPECT_DEATH(Launch({.threads = 64}, BarrierOfSome), "40 wait at a barrier");
  std::vector<float> y(32);
  EXPECT_DEATH(Launch({.threads = 32}, ExchangeOfSome, y.data()), "1 of the 32 threads");
}

}  // namespace
}  // namespace reprise
