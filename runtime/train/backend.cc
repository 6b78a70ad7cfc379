#include "runtime/train/backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "offload/host_pool.h"

namespace reprise {
namespace {

constexpr char kCudaLibrary[] = "libreprise_cuda.so";

class CpuBackend : public Backend {
 public:
  absl::Status Check() const override { return absl::OkStatus(); }
  absl::Status Select(const Communicator& /*ranks*/) const override { return absl::OkStatus(); }
  KernelKind kernels() const override { return KernelKind::kCpu; }

  std::string DeviceName() const override {
    std::ifstream information("/proc/cpuinfo");
    std::string line;
    while (std::getline(information, line)) {
      if (absl::StartsWith(line, "model name")) return line;
    }
    return "unknown processor";
  }

  absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Communicator& /*ranks*/,
                                                     const CpuDeviceOptions& options) const override {
    return MakeCpuDevice(options);
  }

  absl::StatusOr<std::unique_ptr<HostStore>> MakeHostStore(int64_t bytes) const override {
    ASSIGN_OR_RETURN(std::unique_ptr<HostPool> pool, HostPool::Create(bytes));
    return pool;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(
      Communicator& /*ranks*/, Device& /*device*/, const CommunicatorOptions& /*options*/) const override {
    return nullptr;
  }

  absl::Status CheckCapture(Communicator& /*ranks*/) const override {
    return absl::InvalidArgumentError("--cuda_graphs=on needs --device=cuda; leave it out");
  }
};

// Opening a library runs its initializers, which register: no lock is held meanwhile.
class Registry {
 public:
  static Registry& Get() {
    static auto* registry = new Registry;
    return *registry;
  }

  void Add(const std::string& name, std::unique_ptr<const Backend> backend) {
    const std::lock_guard lock(mutex_);
    const bool added = backends_.emplace(name, std::move(backend)).second;
    REPRISE_CHECK(added) << "two backends are called " << name;
  }

  const Backend* Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = backends_.find(name);
    return found == backends_.end() ? nullptr : found->second.get();
  }

 private:
  Registry() { backends_.emplace("cpu", std::make_unique<CpuBackend>()); }

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const Backend>> backends_;
};

// The file beside the one that holds this function.
std::string CudaLibraryPath() {
  if (const char* path = std::getenv("REPRISE_CUDA_LIBRARY"); path != nullptr && *path != '\0') return path;
  Dl_info own = {};
  if (dladdr(reinterpret_cast<const void*>(&CudaLibraryPath), &own) == 0 || own.dli_fname == nullptr) {
    return kCudaLibrary;
  }
  const std::string file = own.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? kCudaLibrary : absl::StrCat(file.substr(0, slash + 1), kCudaLibrary);
}

absl::Status OpenCudaLibrary() {
  const std::string path = CudaLibraryPath();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return absl::OkStatus();
  const char* why = dlerror();
  return absl::InvalidArgumentError(absl::StrCat(
      "device=cuda: the CUDA part does not open (", why == nullptr ? path : why,
      "); build where nvcc and cuBLASLt are found and install CUDA's runtime libraries, or use device=cpu"));
}

}  // namespace

bool RegisterBackend(const std::string& name, std::unique_ptr<const Backend> backend) {
  Registry::Get().Add(name, std::move(backend));
  return true;
}

absl::StatusOr<const Backend*> FindBackend(const std::string& name) {
  if (const Backend* backend = Registry::Get().Find(name); backend != nullptr) return backend;
  if (name != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("device=", name, " is not a device; use cpu or cuda"));
  }
  RETURN_IF_ERROR(OpenCudaLibrary());
  const Backend* backend = Registry::Get().Find(name);
  if (backend != nullptr) return backend;
  return absl::InvalidArgumentError(
      absl::StrCat("device=cuda: ", CudaLibraryPath(), " is not of this build; build it again, or use device=cpu"));
}

std::string ChooseDevice() {
  // The driver's own library: CUDA's others take a tenth of a second and 200 MB, for nothing where there is no driver.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  const bool asked = std::getenv("REPRISE_CUDA_LIBRARY") != nullptr;
  if (driver == nullptr && !asked) return "cpu";
  const absl::StatusOr<const Backend*> cuda = FindBackend("cuda");
  return cuda.ok() && (*cuda)->Check().ok() ? "cuda" : "cpu";
}

}  // namespace reprise
