// NCCL's functions, as a table: the library is opened when ranks need it, so that programs start on machines without
// it, and tests put ranks that are threads in its place.
//
//   ASSIGN_OR_RETURN(const NcclApi* nccl, FindNccl());
//   ncclUniqueId id;
//   if (nccl->GetUniqueId(&id) != ncclSuccess) ...
#ifndef REPRISE_COLLECTIVES_NCCL_NCCL_API_H_
#define REPRISE_COLLECTIVES_NCCL_NCCL_API_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reprise::cuda {

struct NcclApi {
  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclCommFinalize) CommFinalize = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
};

// Opens `file`, a path or a name that the system's loader looks for. InvalidArgument, with the mend, where it does not
// open or lacks a function.
absl::StatusOr<NcclApi> LoadNccl(const std::string& file);

// The NCCL of this machine, opened by the first call and kept; what decides its bits and its memory is set in the
// environment then, where the user has not set it. InvalidArgument as of LoadNccl.
absl::StatusOr<const NcclApi*> FindNccl();

// InvalidArgument where it is older than 2.22, the first whose ranks can give up two communicators at once.
absl::Status CheckVersion(const NcclApi& nccl);

// "unhandled system error (connection refused)": what the result means, and NCCL's own last words where there are any.
std::string DescribeResult(const NcclApi& nccl, ncclResult_t result);

}  // namespace reprise::cuda

#endif  // REPRISE_COLLECTIVES_NCCL_NCCL_API_H_
