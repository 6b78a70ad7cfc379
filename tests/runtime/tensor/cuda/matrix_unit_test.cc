// The wrappers of the matrix unit and of copies that go on by themselves, as their twins on the CPU do them, against
// the layouts that the PTX ISA documents and against plain products.
#include "runtime/tensor/cuda/matrix_unit.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "device/cuda/launch.h"
#include "runtime/tensor/cuda/async_copy.h"
#include "tests/tools/cuda/fibers.h"
#include "tests/tools/kernel_check.h"

namespace reprise {
namespace {

using cuda::Launch;

std::vector<BFloat16> RandomElements(int64_t count, uint64_t seed) {
  std::vector<BFloat16> elements;
  for (const double value : testing::RandomValues(count, seed, -2, 2)) {
    elements.emplace_back(static_cast<float>(value));
  }
  return elements;
}

double At(const std::vector<BFloat16>& matrix, int stride, int row, int column) {
  return static_cast<double>(static_cast<float>(matrix[static_cast<size_t>(row * stride + column)]));
}

// "Matrix fragments for mma.m16n8k16": element i of a lane's fragment.
struct Place {
  int row;
  int column;
};
Place LeftPlace(int lane, int i) {
  const int row = lane >> 2;
  const bool upper = i < 2 || (i >= 4 && i < 6);
  return {upper ? row : row + 8, (lane % 4) * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place RightPlace(int lane, int i) { return {(lane % 4) * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2}; }
Place SumPlace(int lane, int i) { return {(lane >> 2) + (i < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1)}; }

uint32_t PairOf(BFloat16 first, BFloat16 second) { return first.bits | static_cast<uint32_t>(second.bits) << 16; }

// A product whose fragments are put together by the documented places, one element at a time.
void MultiplyByHand(const BFloat16* left, const BFloat16* right, float* sums) {
  const int lane = cuda::Lane();
  const auto left_at = [&](int i) { return left[LeftPlace(lane, i).row * 16 + LeftPlace(lane, i).column]; };
  const auto right_at = [&](int i) { return right[RightPlace(lane, i).row * 8 + RightPlace(lane, i).column]; };
  cuda::LeftFragment fragment;
  for (int pair = 0; pair < 4; ++pair) fragment.pairs[pair] = PairOf(left_at(2 * pair), left_at(2 * pair + 1));
  float own[4];
  for (int i = 0; i < 4; ++i) own[i] = sums[SumPlace(lane, i).row * 8 + SumPlace(lane, i).column];
  cuda::AddProduct(fragment, PairOf(right_at(0), right_at(1)), PairOf(right_at(2), right_at(3)), own);
  for (int i = 0; i < 4; ++i) sums[SumPlace(lane, i).row * 8 + SumPlace(lane, i).column] = own[i];
}

TEST(MatrixUnit, AddsTheProductOfDocumentedFragments) {
  const auto left = RandomElements(16 * 16, 1);
  const auto right = RandomElements(16 * 8, 2);
  std::vector<float> sums(16 * 8);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i);
  Launch({.threads = 32}, MultiplyByHand, left.data(), right.data(), sums.data());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double expected = row * 8 + column;
      for (int k = 0; k < 16; ++k) expected += At(left, 16, row, k) * At(right, 8, k, column);
      EXPECT_NEAR(sums[static_cast<size_t>(row * 8 + column)], expected, 1e-4) << row << ", " << column;
    }
  }
}

void LoadBoth(const BFloat16* rows, uint32_t* plain, uint32_t* transposed) {
  uint32_t pairs[4];
  cuda::LoadMatrices(rows + cuda::Lane() * 8, pairs);
  for (int i = 0; i < 4; ++i) plain[cuda::Lane() * 4 + i] = pairs[i];
  cuda::LoadTransposed(rows + cuda::Lane() * 8, pairs);
  for (int i = 0; i < 4; ++i) transposed[cuda::Lane() * 4 + i] = pairs[i];
}

// "ldmatrix": lanes 0 to 7 name the rows of the first matrix, 8 to 15 of the second...; lane i gets row i / 4, elements
// 2 (i % 4) and the next.
TEST(MatrixUnit, LoadsFourMatricesAndTheirTransposes) {
  const auto rows = RandomElements(32 * 8, 3);
  std::vector<uint32_t> plain(32 * 4);
  std::vector<uint32_t> transposed(32 * 4);
  Launch({.threads = 32}, LoadBoth, rows.data(), plain.data(), transposed.data());
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto at = [&](int row, int column) { return rows[static_cast<size_t>((matrix * 8 + row) * 8 + column)]; };
      const auto index = static_cast<size_t>(lane * 4 + matrix);
      const int first = lane % 4 * 2;
      EXPECT_EQ(plain[index], PairOf(at(lane / 4, first), at(lane / 4, first + 1)));
      EXPECT_EQ(transposed[index], PairOf(at(first, lane / 4), at(first + 1, lane / 4)));
    }
  }
}

constexpr int kStride = 24;

// x y, x y' and (x y) y of 16 x 16 in matrices with longer rows; sums go from fragments to places as documented.
void Products(const BFloat16* x, const BFloat16* y, float* product, float* dots, float* again) {
  const auto add = [](const cuda::LeftFragment& left, const cuda::RightFragments& right, float(&sums)[2][4]) {
    for (auto& tile : sums) {
      for (float& sum : tile) sum = 0;
    }
    cuda::AddProduct(left, right, sums[0], sums[1]);
  };
  const auto store = [](const float(&sums)[2][4], float* to) {
    for (int n = 0; n < 2; ++n) {
      for (int i = 0; i < 4; ++i) {
        const Place place = SumPlace(cuda::Lane(), i);
        to[place.row * 16 + n * 8 + place.column] = sums[n][i];
      }
    }
  };
  float sums[2][4];
  const cuda::LeftFragment left = cuda::LoadLeft(x, kStride);
  add(left, cuda::LoadRightOfRows(y, kStride), sums);
  store(sums, dots);
  const cuda::RightFragments right = cuda::LoadRight(y, kStride);
  add(left, right, sums);
  store(sums, product);
  add(cuda::LeftOf(sums[0], sums[1]), right, sums);
  store(sums, again);
}

TEST(MatrixUnit, FragmentsOfRowsMultiply) {
  const auto x = RandomElements(16 * kStride, 4);
  const auto y = RandomElements(16 * kStride, 5);
  std::vector<float> product(16 * 16);
  std::vector<float> dots(16 * 16);
  std::vector<float> again(16 * 16);
  Launch({.threads = 32}, Products, x.data(), y.data(), product.data(), dots.data(), again.data());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      const auto index = static_cast<size_t>(row * 16 + column);
      double expected_product = 0;
      double expected_dot = 0;
      double expected_again = 0;
      for (int k = 0; k < 16; ++k) {
        expected_product += At(x, kStride, row, k) * At(y, kStride, k, column);
        expected_dot += At(x, kStride, row, k) * At(y, kStride, column, k);
        expected_again +=
            testing::Stored(product[static_cast<size_t>(row * 16 + k)], DType::kBFloat16) * At(y, kStride, k, column);
      }
      EXPECT_NEAR(product[index], expected_product, 1e-4);
      EXPECT_NEAR(dots[index], expected_dot, 1e-4);
      EXPECT_NEAR(again[index], expected_again, 1e-3);
    }
  }
}

TEST(MatrixUnit, PairsAreRoundedToNearestEven) {
  const float tie = 1 + 0x1p-8F;  // between 1 and 1 + 2^-7
  EXPECT_EQ(cuda::RoundedPair(tie, 1 + 0x1p-7F + 0x1p-8F), 0x3F823F80U);
  EXPECT_EQ(cuda::RoundedPair(-0.0F, std::numeric_limits<float>::infinity()), 0x7F808000U);
}

TEST(MatrixUnit, PowersOfTwo) {
  EXPECT_EQ(cuda::PowerOfTwo(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(cuda::PowerOfTwo(0), 1);
  EXPECT_EQ(cuda::PowerOfTwo(-3), 0.125F);
  EXPECT_TRUE(std::isnan(cuda::PowerOfTwo(std::numeric_limits<float>::quiet_NaN())));
}

// Each thread copies 16 bytes of its own, and then others.
struct Seen {
  std::array<float, 4> before;
  std::array<float, 4> after_first;
  std::array<float, 4> after_both;
};

void CopyTwice(const float* x, Seen* seen) {
  auto* first = cuda::Shared<float>() + cuda::Thread() * 8;
  float* second = first + 4;
  const auto look = [&] { return std::array<float, 4>{first[0], first[3], second[0], second[3]}; };
  cuda::AsyncCopies copies;
  copies.Start<16>(first, x + cuda::Thread() * 4, true);
  copies.Commit();
  copies.Start<16>(second, x, false);
  copies.Start<4>(second, x + cuda::Thread(), cuda::Thread() % 2 == 0);
  copies.Commit();
  seen[cuda::Thread()].before = look();
  copies.Wait<1>();
  seen[cuda::Thread()].after_first = look();
  copies.Wait<0>();
  seen[cuda::Thread()].after_both = look();
}

TEST(AsyncCopy, ComesWhenItsGroupIsWaitedFor) {
  std::vector<float> x(128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  std::vector<Seen> seen(32);
  Launch({.threads = 32, .shared_bytes = 32 * 8 * sizeof(float)}, CopyTwice, x.data(), seen.data());
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const float value : seen[i].before) EXPECT_TRUE(std::isnan(value));
    EXPECT_EQ(seen[i].after_first[0], x[4 * i]);
    EXPECT_EQ(seen[i].after_first[1], x[4 * i + 3]);
    EXPECT_TRUE(std::isnan(seen[i].after_first[2]));
    EXPECT_EQ(seen[i].after_both, (std::array<float, 4>{x[4 * i], x[4 * i + 3], i % 2 == 0 ? x[i] : 0, 0}));
  }
}

void DifferentInstructions(const BFloat16* rows) {
  uint32_t pairs[4];
  if (cuda::Lane() == 5) {
    cuda::LoadTransposed(rows, pairs);
  } else {
    cuda::LoadMatrices(rows, pairs);
  }
}

TEST(MatrixUnitDeathTest, LanesAtDifferentInstructionsEndTheProcess) {
  const auto rows = RandomElements(8, 1);
  EXPECT_DEATH(Launch({.threads = 32}, DifferentInstructions, rows.data()), "different instructions");
}

}  // namespace
}  // namespace reprise
