// The sum over a block, as the fibers run it.
#include "runtime/tensor/cuda/block_sum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "device/cuda/launch.h"
#include "tests/tools/cuda/fibers.h"

namespace reprise {
namespace {

using cuda::Launch;

void TwoSums(const float* x, float* sums) {
  const float first = cuda::BlockSum(x[cuda::Thread()]);
  const float second = cuda::BlockSum(2 * x[cuda::Thread()]);
  sums[2 * cuda::Thread()] = first;
  sums[2 * cuda::Thread() + 1] = second;
}

TEST(CudaBlockSum, IsTheSameInEveryThreadAndOrder) {
  for (const int threads : {32, 64, 256, 1024}) {
    std::vector<float> x(static_cast<size_t>(threads));
    std::iota(x.begin(), x.end(), 1.0F);
    const float sum = static_cast<float>(threads) * static_cast<float>(threads + 1) / 2;  // exact below 2^24
    for (uint64_t seed = 0; seed < 5; ++seed) {
      testing::SetThreadOrder(seed);
      std::vector<float> sums(2 * x.size());
      Launch({.threads = threads, .shared_bytes = cuda::kBlockSumBytes}, TwoSums, x.data(), sums.data());
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(sums[2 * i], sum);
        EXPECT_EQ(sums[2 * i + 1], 2 * sum);
      }
    }
  }
}

}  // namespace
}  // namespace reprise
