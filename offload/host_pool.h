// HostPool: the HostStore in memory. One block, taken and touched once, pinned where the system allows.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<HostPool> pool, HostPool::Create(plan.host_bytes));
//   std::byte* boundary = pool->Region(item.offset, item.bytes);
#ifndef REPRISE_OFFLOAD_HOST_POOL_H_
#define REPRISE_OFFLOAD_HOST_POOL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/host_memory.h"
#include "offload/host_store.h"

namespace reprise {

class HostPool : public HostStore {
 public:
  // Exactly `bytes`, rounded up to a page of 4096 and no further. InvalidArgument below zero; ResourceExhausted, with
  // the bytes needed and available, where the machine has not as much.
  static absl::StatusOr<std::unique_ptr<HostPool>> Create(int64_t bytes);

  std::string Description() const override;
  int64_t bytes() const override { return memory_.bytes(); }
  std::byte* data() override { return memory_.data(); }
  absl::Status Write(int64_t offset, absl::Span<const std::byte> from) override;
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) override;

  // The memory of one item. Owned by the pool.
  std::byte* Region(int64_t offset, int64_t bytes) const;

  // Whether the kernel has promised never to move the block to disk. Nothing depends on it but speed under pressure.
  bool pinned() const { return pinned_; }

 private:
  explicit HostPool(HostMemory memory);

  HostMemory memory_;
  bool pinned_ = false;
};

}  // namespace reprise

#endif  // REPRISE_OFFLOAD_HOST_POOL_H_
