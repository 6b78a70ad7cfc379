#include "runtime/tensor/kernel_set.h"

#include <utility>

#include "base/status_macros.h"

namespace reprise {

absl::StatusOr<const Kernel*> KernelSet::Get(const KernelSpec& spec) {
  std::unique_ptr<Kernel>& slot = kernels_[spec.ToString()];
  if (slot == nullptr) {
    ASSIGN_OR_RETURN(slot, MakeKernel(spec, options_));
  }
  return slot.get();
}

}  // namespace reprise
