// Copies from global to shared memory that go on while a thread does something else.
//
//   AsyncCopies copies;
//   copies.Start<16>(shared, global, exists);   // zeros where it does not exist
//   copies.Commit();                            // what was started since the last Commit is a group
//   copies.Wait<1>();                           // of this thread's groups all but the last one are there,
//   Barrier();                                  // and of all threads'
//
// Both places are aligned to the bytes of a copy. From Start to Wait and Barrier nobody may read or write what is
// copied to: on the CPU it is NaN in between, and what is not waited for never comes.
#ifndef REPRISE_RUNTIME_TENSOR_CUDA_ASYNC_COPY_H_
#define REPRISE_RUNTIME_TENSOR_CUDA_ASYNC_COPY_H_

#include <cstdint>

#include "device/cuda/threads.h"

#ifndef __CUDACC__
#include <cstring>
#include <deque>
#include <vector>
#endif

namespace reprise::cuda {

#ifdef __CUDACC__

class AsyncCopies {
 public:
  // `from` is not read where it does not exist, but is an address of global memory. Of 16 bytes only the second cache
  // is used: tiles are read once by a block.
  template <int kBytes>
  __device__ __forceinline__ void Start(void* to, const void* from, bool exists) const {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    const int bytes = exists ? kBytes : 0;
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(kBytes), "r"(bytes)
                   : "memory");
    }
  }
  __device__ __forceinline__ void Commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kGroups>
  __device__ __forceinline__ void Wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
  }
};

#else

class AsyncCopies {
 public:
  template <int kBytes>
  void Start(void* to, const void* from, bool exists) {
    std::memset(to, 0xFF, kBytes);
    started_.push_back({to, exists ? from : nullptr, kBytes});
  }
  void Commit() {
    groups_.push_back(started_);
    started_.clear();
  }
  template <size_t kGroups>
  void Wait() {
    while (groups_.size() > kGroups) {
      for (const Copy& copy : groups_.front()) {
        if (copy.from == nullptr) {
          std::memset(copy.to, 0, copy.bytes);
        } else {
          std::memcpy(copy.to, copy.from, copy.bytes);
        }
      }
      groups_.pop_front();
    }
  }

 private:
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    size_t bytes;
  };
  std::vector<Copy> started_;
  std::deque<std::vector<Copy> > groups_;
};

#endif

}  // namespace reprise::cuda

#endif  // REPRISE_RUNTIME_TENSOR_CUDA_ASYNC_COPY_H_
