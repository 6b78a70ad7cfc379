// KernelSet: the kernels of a program, each made once.
//
//   KernelSet kernels({.kind = KernelKind::kCpu, .threads = 2});
//   ASSIGN_OR_RETURN(const Kernel* kernel, kernels.Get(spec));
#ifndef REPRISE_RUNTIME_TENSOR_KERNEL_SET_H_
#define REPRISE_RUNTIME_TENSOR_KERNEL_SET_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

// Not thread-safe. Owns the kernels, which live as long as the set.
class KernelSet {
 public:
  explicit KernelSet(const KernelOptions& options) : options_(options) {}

  absl::StatusOr<const Kernel*> Get(const KernelSpec& spec);
  const KernelOptions& options() const { return options_; }

 private:
  KernelOptions options_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_KERNEL_SET_H_
