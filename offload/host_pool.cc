#include "offload/host_pool.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace reprise {

absl::StatusOr<std::unique_ptr<HostPool>> HostPool::Create(int64_t bytes) {
  ASSIGN_OR_RETURN(HostMemory memory, HostMemory::Take("the host pool", bytes, /*touch=*/true));
  return std::unique_ptr<HostPool>(new HostPool(std::move(memory)));
}

HostPool::HostPool(HostMemory memory) : memory_(std::move(memory)), pinned_(memory_.Lock()) {}

std::string HostPool::Description() const {
  return absl::StrCat("host memory, ", FormatBytes(bytes()), pinned_ ? ", pinned" : ", not pinned");
}

absl::Status HostPool::Write(int64_t offset, absl::Span<const std::byte> from) {
  std::byte* to = Region(offset, static_cast<int64_t>(from.size()));
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status HostPool::Read(int64_t offset, absl::Span<std::byte> to) {
  const std::byte* from = Region(offset, static_cast<int64_t>(to.size()));
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
  return absl::OkStatus();
}

std::byte* HostPool::Region(int64_t offset, int64_t bytes) const {
  REPRISE_CHECK(offset >= 0 && bytes >= 0 && bytes <= memory_.bytes() && offset <= memory_.bytes() - bytes)
      << "bytes " << offset << " + " << bytes << " of a host pool of " << memory_.bytes();
  return memory_.data() + offset;
}

}  // namespace reprise
