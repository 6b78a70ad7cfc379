#include <cstdlib>

#include "base/status_macros.h"
#include "collectives/nccl/nccl_api.h"

namespace reprise::cuda {
namespace {

// NCCL reads these from the environment alone. What the user has set there stays.
void SetDefaults() {
  constexpr int kKeep = 0;
  const bool ring = std::getenv("NCCL_ALGO") == nullptr;
  // One algorithm, whose order of a sum follows from sizes and ranks; NVLS would take memory for nothing beside it.
  if (ring) setenv("NCCL_ALGO", "Ring", kKeep);
  if (ring) setenv("NCCL_NVLS_ENABLE", "0", kKeep);
  // Connections, and their memory, are made with the communicator and not by the first collective that wants them.
  setenv("NCCL_RUNTIME_CONNECT", "0", kKeep);
  // Two communicators run their kernels in the order of the calls, which is the schedule's on every rank.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeep);
}

absl::StatusOr<NcclApi> Open() {
  SetDefaults();
  return LoadNccl("libnccl.so.2");
}

}  // namespace

absl::StatusOr<const NcclApi*> FindNccl() {
  static const auto* nccl = new absl::StatusOr<NcclApi>(Open());
  RETURN_IF_ERROR(nccl->status());
  return &**nccl;
}

}  // namespace reprise::cuda
