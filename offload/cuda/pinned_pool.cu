#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/cuda/handles.h"
#include "device/cuda/pinned.h"
#include "offload/cuda/pinned_pool.h"

namespace reprise::cuda {
namespace {

constexpr int64_t kPage = 4096;

class PinnedPool : public HostStore {
 public:
  PinnedPool(PinnedMemory memory, int64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  std::string Description() const override { return absl::StrCat("host memory, ", FormatBytes(bytes_), ", pinned"); }
  int64_t bytes() const override { return bytes_; }
  std::byte* data() override { return static_cast<std::byte*>(memory_.get()); }

  absl::Status Write(int64_t offset, absl::Span<const std::byte> from) override {
    return Copy(Region(offset, from.size()), from.data(), from.size());
  }
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) override {
    return Copy(to.data(), Region(offset, to.size()), to.size());
  }

 private:
  std::byte* Region(int64_t offset, size_t size) const {
    const auto bytes = static_cast<int64_t>(size);
    REPRISE_CHECK(offset >= 0 && bytes <= bytes_ && offset <= bytes_ - bytes)
        << "bytes " << offset << " + " << bytes << " of a pinned pool of " << bytes_;
    return static_cast<std::byte*>(memory_.get()) + offset;
  }

  static absl::Status Copy(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Call(StartCopy(to, from, static_cast<int64_t>(bytes)), absl::StrCat("start a copy of ", bytes, " bytes"));
  }

  PinnedMemory memory_;
  int64_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostStore>> MakePinnedPool(int64_t bytes) {
  REPRISE_CHECK(bytes >= 0) << bytes;
  const int64_t whole = RoundUp(bytes, kPage);
  ASSIGN_OR_RETURN(PinnedMemory memory, TakePinned(whole, "lower --host_budget"));
  return std::make_unique<PinnedPool>(std::move(memory), whole);
}

}  // namespace reprise::cuda
