// The matrix unit (tensor core) as a warp sees it: products of 16 x 16 by 16 x 8 elements of bfloat16 whose sums are
// float32, and how fragments of matrices come from shared memory into registers.
//
//   const LeftFragment a = LoadLeft(x, x_stride);      // 16 x 16 of x in shared memory
//   const RightFragments b = LoadRight(y, y_stride);   // 16 x 16 of y
//   float sums[2][4] = {};
//   AddProduct(a, b, sums[0], sums[1]);                // 16 x 8 and 16 x 8
//
// Fragments as in the PTX ISA ("Matrix Fragments for mma.m16n8k16", "ldmatrix"). Of a lane with g = lane / 4 and
// t = lane % 4, a pair being two neighbouring elements in 32 bits, the first in the lower half:
//   left, [row, k]     pair 0: row g,     k 2t, 2t+1      pair 2: row g,     k 2t+8, 2t+9
//                      pair 1: row g + 8, k 2t, 2t+1      pair 3: row g + 8, k 2t+8, 2t+9
//   right, [k, column] pair 0: k 2t, 2t+1, column g       pair 1: k 2t+8, 2t+9, column g
//   sums, [row, column] 0, 1: row g, columns 2t, 2t+1     2, 3: row g + 8, columns 2t, 2t+1
// So the sums of two neighbouring products, rounded, are a left fragment: LeftOf.
//
// All lanes of a warp take part in each call. Rows in shared memory start at multiples of 16 bytes. On the CPU the
// twins below do the same element by element; a matrix unit adds in an order, and with a rounding, of its own.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_MATRIX_UNIT_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_MATRIX_UNIT_H_

#include <cmath>
#include <cstdint>

#include "device/cuda/threads.h"
#include "runtime/tensor/bfloat16.h"

namespace reprise::cuda {

// 16 rows of 16.
struct LeftFragment {
  uint32_t pairs[4];
};

// Two right sides of 16 x 8 each: pairs 0 and 1 of columns 0 to 7, pairs 2 and 3 of columns 8 to 15.
struct RightFragments {
  uint32_t pairs[4];
};

#ifdef __CUDACC__

// Four matrices of 8 x 8: lane i names row i % 8 of matrix i / 8, and gets elements 2t, 2t+1 of row g of each.
__device__ __forceinline__ void LoadMatrices(const BFloat16* row, uint32_t (&pairs)[4]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(address)
               : "memory");
}

// Of the same matrices' transposes: elements 2t, 2t+1 of column g.
__device__ __forceinline__ void LoadTransposed(const BFloat16* row, uint32_t (&pairs)[4]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void AddProduct(const LeftFragment& left, uint32_t right0, uint32_t right1,
                                           float (&sums)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "r"(right0), "r"(right1));
}

// Rounded to nearest, ties to even.
__device__ __forceinline__ uint32_t RoundedPair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// 2^x within 2^-22 of itself; 0 where the result is below the least normal number.
__device__ __forceinline__ float PowerOfTwo(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#else

struct MatrixLoad {
  const BFloat16* row;
  uint32_t* pairs;
};

template <bool kTransposed>
void LoadTogether(void* const* records) {
  const auto load = [&](int lane) { return *static_cast<const MatrixLoad*>(records[lane]); };
  for (int lane = 0; lane < kWarp; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t pair = 0;
      for (int i = 0; i < 2; ++i) {
        const int row = kTransposed ? 2 * t + i : g;
        const int column = kTransposed ? g : 2 * t + i;
        pair |= static_cast<uint32_t>(load(8 * matrix + row).row[column].bits) << (16 * i);
      }
      load(lane).pairs[matrix] = pair;
    }
  }
}

inline void LoadMatrices(const BFloat16* row, uint32_t (&pairs)[4]) {
  MatrixLoad load{row, pairs};
  Together(LoadTogether<false>, &load);
}

inline void LoadTransposed(const BFloat16* row, uint32_t (&pairs)[4]) {
  MatrixLoad load{row, pairs};
  Together(LoadTogether<true>, &load);
}

struct MatrixStep {
  const uint32_t* left;
  uint32_t right[2];
  float* sums;
};

inline float ElementOf(uint32_t pair, int index) {
  return std::bit_cast<float>(index == 0 ? pair << 16 : pair & 0xFFFF0000U);
}

inline void MultiplyTogether(void* const* records) {
  float left[16][16];  // [k][row]
  float right[16][8];
  float sums[8][16];  // [column][row]
  const auto for_each_sum = [&](const auto& function) {
    for (int lane = 0; lane < kWarp; ++lane) {
      float* own = static_cast<const MatrixStep*>(records[lane])->sums;
      for (int i = 0; i < 4; ++i) function(own[i], sums[lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8]);
    }
  };
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& step = *static_cast<const MatrixStep*>(records[lane]);
    const int g = lane / 4;
    const int k = lane % 4 * 2;
    for (int i = 0; i < 2; ++i) {
      for (int pair = 0; pair < 4; ++pair) left[k + i + pair / 2 * 8][g + pair % 2 * 8] = ElementOf(step.left[pair], i);
      for (int pair = 0; pair < 2; ++pair) right[k + i + pair * 8][g] = ElementOf(step.right[pair], i);
    }
  }
  for_each_sum([](float own, float& sum) { sum = own; });
  for (int column = 0; column < 8; ++column) {
    for (int k = 0; k < 16; ++k) {
      for (int row = 0; row < 16; ++row) sums[column][row] += left[k][row] * right[k][column];
    }
  }
  for_each_sum([](float& own, float sum) { own = sum; });
}

inline void AddProduct(const LeftFragment& left, uint32_t right0, uint32_t right1, float (&sums)[4]) {
  MatrixStep step{left.pairs, {right0, right1}, sums};
  Together(MultiplyTogether, &step);
}

inline uint32_t RoundedPair(float first, float second) {
  return static_cast<uint32_t>(BFloat16(second).bits) << 16 | BFloat16(first).bits;
}

inline float PowerOfTwo(float x) { return std::exp2(x); }

#endif

// The left fragment of 16 rows and 16 columns that begin at `corner` of a matrix in shared memory.
REPRISE_ON_DEVICE LeftFragment LoadLeft(const BFloat16* corner, int stride) {
  LeftFragment fragment;
  LoadMatrices(corner + Lane() % 16 * stride + Lane() / 16 * 8, fragment.pairs);
  return fragment;
}

// Right sides of a product with a transpose: 16 rows of a matrix, from `corner`, are the columns; k runs along a row.
REPRISE_ON_DEVICE RightFragments LoadRightOfRows(const BFloat16* corner, int stride) {
  RightFragments fragments;
  LoadMatrices(corner + (Lane() % 8 + Lane() / 16 * 8) * stride + Lane() / 8 % 2 * 8, fragments.pairs);
  return fragments;
}

// Right sides whose k are 16 rows of a matrix, and whose columns are 16 of its columns, from `corner`.
REPRISE_ON_DEVICE RightFragments LoadRight(const BFloat16* corner, int stride) {
  RightFragments fragments;
  LoadTransposed(corner + Lane() % 16 * stride + Lane() / 16 * 8, fragments.pairs);
  return fragments;
}

// Both products of `left` with two right sides.
REPRISE_ON_DEVICE void AddProduct(const LeftFragment& left, const RightFragments& right, float (&first)[4],
                                  float (&second)[4]) {
  AddProduct(left, right.pairs[0], right.pairs[1], first);
  AddProduct(left, right.pairs[2], right.pairs[3], second);
}

// The sums of two neighbouring products, 16 x 16 in all, rounded, as the left side of another.
REPRISE_ON_DEVICE LeftFragment LeftOf(const float (&first)[4], const float (&second)[4]) {
  return {{RoundedPair(first[0], first[1]), RoundedPair(first[2], first[3]), RoundedPair(second[0], second[1]),
           RoundedPair(second[2], second[3])}};
}

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_MATRIX_UNIT_H_
