#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/cuda/current_stream.h"
#include "device/cuda/handles.h"
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
    return Copy(Region(offset, from.size()), from.data(), from.size(), cudaMemcpyDeviceToHost);
  }
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) override {
    return Copy(to.data(), Region(offset, to.size()), to.size(), cudaMemcpyHostToDevice);
  }

 private:
  std::byte* Region(int64_t offset, size_t size) const {
    const auto bytes = static_cast<int64_t>(size);
    REPRISE_CHECK(offset >= 0 && bytes <= bytes_ && offset <= bytes_ - bytes)
        << "bytes " << offset << " + " << bytes << " of a pinned pool of " << bytes_;
    return static_cast<std::byte*>(memory_.get()) + offset;
  }

  static absl::Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return absl::OkStatus();
    return Call(cudaMemcpyAsync(to, from, bytes, kind, static_cast<cudaStream_t>(CurrentStream())),
                absl::StrCat("start a copy of ", bytes, " bytes"));
  }

  PinnedMemory memory_;
  int64_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostStore>> MakePinnedPool(int64_t bytes) {
  REPRISE_CHECK(bytes >= 0) << bytes;
  const int64_t whole = RoundUp(bytes, kPage);
  PinnedMemory memory;
  if (whole > 0) {
    const cudaError_t error = cudaHostAlloc(memory.place(), static_cast<size_t>(whole), cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return absl::ResourceExhaustedError(absl::StrCat("the system gives no ", whole, " bytes (", FormatBytes(whole),
                                                       ") of page-locked memory; lower --host_budget, or raise the "
                                                       "limit of locked memory (ulimit -l)"));
    }
    RETURN_IF_ERROR(Call(error, absl::StrCat("take ", whole, " bytes of page-locked memory")));
  }
  return std::make_unique<PinnedPool>(std::move(memory), whole);
}

}  // namespace reprise::cuda
