#include <dlfcn.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/nccl_api.h"

namespace reprise::cuda {
namespace {

constexpr int kOldest = 22200;  // 2.22.0 as NCCL counts

// A library that is open, and the first function that it lacks.
class Library {
 public:
  explicit Library(const std::string& file) : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {}

  bool open() const { return handle_ != nullptr; }
  const std::string& missing() const { return missing_; }

  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }

 private:
  void* handle_;  // never closed: NCCL has threads of its own
  std::string missing_;
};

}  // namespace

absl::StatusOr<NcclApi> LoadNccl(const std::string& file) {
  Library library(file);
  if (!library.open()) {
    return absl::InvalidArgumentError(absl::StrCat("NCCL, which ranks with a GPU each need, does not open (", dlerror(),
                                                   "): install libnccl2, or name the folder of ", file,
                                                   " in LD_LIBRARY_PATH"));
  }
  NcclApi nccl;
  library.Find("ncclGetVersion", &nccl.GetVersion);
  library.Find("ncclGetErrorString", &nccl.GetErrorString);
  library.Find("ncclGetLastError", &nccl.GetLastError);
  library.Find("ncclGetUniqueId", &nccl.GetUniqueId);
  library.Find("ncclCommInitRankConfig", &nccl.CommInitRankConfig);
  library.Find("ncclCommGetAsyncError", &nccl.CommGetAsyncError);
  library.Find("ncclCommFinalize", &nccl.CommFinalize);
  library.Find("ncclCommDestroy", &nccl.CommDestroy);
  library.Find("ncclCommAbort", &nccl.CommAbort);
  library.Find("ncclGroupStart", &nccl.GroupStart);
  library.Find("ncclGroupEnd", &nccl.GroupEnd);
  library.Find("ncclAllGather", &nccl.AllGather);
  library.Find("ncclReduceScatter", &nccl.ReduceScatter);
  library.Find("ncclAllReduce", &nccl.AllReduce);
  library.Find("ncclBroadcast", &nccl.Broadcast);
  if (!library.missing().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is no NCCL of version 2.22 or later (it has no ",
                                                   library.missing(), "): install libnccl2"));
  }
  return nccl;
}

absl::Status CheckVersion(const NcclApi& nccl) {
  int version = 0;
  if (const ncclResult_t result = nccl.GetVersion(&version); result != ncclSuccess) {
    return absl::UnavailableError(absl::StrCat("NCCL does not say its version: ", DescribeResult(nccl, result)));
  }
  if (version >= kOldest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100,
                                                 " is too old: install libnccl2 of version 2.22 or later"));
}

std::string DescribeResult(const NcclApi& nccl, ncclResult_t result) {
  std::string text = nccl.GetErrorString(result);
  const char* last = nccl.GetLastError(nullptr);
  if (last == nullptr || *last == '\0') return text;
  absl::StrAppend(&text, " (", last, ")");
  std::replace(text.begin(), text.end(), '\n', ' ');  // messages of ours are one sentence
  return text;
}

}  // namespace reprise::cuda
