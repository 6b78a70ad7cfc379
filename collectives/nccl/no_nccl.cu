// In place of all else in this folder where nccl.h was not found when the library was built.
#include "collectives/nccl/nccl_communicator.h"

namespace reprise::cuda {

absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNcclCommunicator(Communicator& /*ranks*/,
                                                                       const CommunicatorOptions& /*options*/) {
  return absl::InvalidArgumentError(
      "this build has no NCCL, which ranks with a GPU each need: install libnccl-dev, configure and build again");
}

}  // namespace reprise::cuda
