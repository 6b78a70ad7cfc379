// The backend `cuda`: what libreprise_cuda.so registers when it is opened.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/nccl/nccl_communicator.h"
#include "collectives/staged/staged_communicator.h"
#include "device/cuda/cuda_device.h"
#include "offload/cuda/pinned_pool.h"
#include "runtime/train/backend.h"

namespace reprise::cuda {
namespace {

// Whether two ranks of any host have one device: NCCL refuses that.
absl::StatusOr<bool> AnyDeviceIsShared(Communicator& ranks) {
  const absl::StatusOr<int> devices = DeviceCount();
  RETURN_IF_ERROR(Agree(ranks, devices.status()));
  const bool shared = ranks.local_size() > *devices;
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(ranks, shared ? "shared" : ""));
  for (const std::string& text : all) {
    if (!text.empty()) return true;
  }
  return false;
}

class CudaBackend : public Backend {
 public:
  absl::Status Check() const override { return DeviceCount().status(); }

  absl::Status Select(const Communicator& ranks) const override {
    ASSIGN_OR_RETURN(const int devices, DeviceCount());
    return UseDevice(ranks.local_rank() % devices);
  }

  std::string DeviceName() const override { return DescribeDevice(0).value_or("cuda"); }

  KernelKind kernels() const override { return KernelKind::kCuda; }

  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Communicator& ranks,
                                                     const CpuDeviceOptions& options) const override {
    ASSIGN_OR_RETURN(const int devices, DeviceCount());
    return MakeCudaDevice({.device = ranks.local_rank() % devices,
                           .arena_bytes = options.arena_bytes,
                           .deadline_seconds = options.deadline_seconds});
  }

  absl::StatusOr<std::unique_ptr<HostStore>> MakeHostStore(int64_t bytes) const override {
    return MakePinnedPool(bytes);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(Communicator& ranks, Device& device,
                                                                 const CommunicatorOptions& options) const override {
    ASSIGN_OR_RETURN(const bool shared, AnyDeviceIsShared(ranks));
    if (shared || ranks.size() == 1) return MakeStagedCommunicator(ranks, {});
    ASSIGN_OR_RETURN(std::unique_ptr<NcclCommunicator> nccl, MakeNcclCommunicator(ranks, options));
    static_cast<CudaDevice&>(device).SetMonitor([&communicator = *nccl] { return communicator.Check(); });
    return nccl;
  }

  absl::Status CheckCapture(Communicator& ranks) const override {
    ASSIGN_OR_RETURN(const bool shared, AnyDeviceIsShared(ranks));
    if (!shared) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--cuda_graphs=on needs a GPU for each rank, for collectives of ranks that share one wait on the host; leave "
        "it "
        "out, or start fewer ranks");
  }
};

[[maybe_unused]] const bool registered = RegisterBackend("cuda", std::make_unique<CudaBackend>());

}  // namespace
}  // namespace reprise::cuda
