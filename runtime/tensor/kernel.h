// Kernel: an operation made ready for given shapes, types and attributes on one kind of device.
//
//   ASSIGN_OR_RETURN(auto kernel, MakeKernel({"layer_norm", types_in, types_out, attributes}, {.threads = 2}));
//   kernel->Run({.inputs = {x, gain, bias}, .outputs = {y, mean, rstd}, .scratch = scratch, .step = &step});
//
// Making may allocate and be slow; Run allocates nothing, keeps no state between calls, and gives the same bits for the
// same inputs at equal `threads`. One Run of one kernel at a time; different kernels of a process also one at a time
// where they use threads > 1 (the compute stream).
#ifndef REPRISE_RUNTIME_TENSOR_KERNEL_H_
#define REPRISE_RUNTIME_TENSOR_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/tensor/attributes.h"
#include "runtime/tensor/types.h"

namespace reprise {

// What changes from step to step, read by kernels while they run. Written between steps, and by the kernel of
// `step_factor` (step_factor.h).
struct StepValues {
  uint64_t seed = 0;
  int64_t step = 0;  // 0-based
  double learning_rate = 0;
  double gradient_scale = 1;  // 1 / count of counted labels x clip factor; what the update multiplies gradients with
  double updates = 1;         // 0: the update leaves everything as it is
};

struct KernelArguments {
  absl::Span<const std::byte* const> inputs;
  // Null where nobody reads that output: the kernel may skip it but must not round the others differently.
  absl::Span<std::byte* const> outputs;
  // scratch_bytes() bytes, aligned to 256; contents undefined.
  std::byte* scratch = nullptr;
  // Bit i: output i = output i + result (the complete result is formed first, then added), else output i = result.
  uint32_t accumulate = 0;
  const StepValues* step = nullptr;
  int64_t block = 0;           // index of the block in its model: part of the key of random numbers
  int64_t first_sequence = 0;  // of this rank's micro-batch in the global step: part of their counter
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  virtual void Run(const KernelArguments& arguments) const = 0;
};

struct KernelSpec {
  std::string operation;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  Attributes attributes;

  std::string ToString() const;  // equal strings: interchangeable kernels
};

enum class KernelKind : uint8_t {
  kReference,  // plain loops; also for float64; the yardstick of tests
  kCpu,        // fast: oneDNN, Highway, OpenMP
  kCuda,       // starts work on the current stream of a CUDA device (runtime/tensor/cuda)
};

struct KernelOptions {
  KernelKind kind = KernelKind::kCpu;
  int threads = 1;  // OpenMP threads that Run may use
};

using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelSpec& spec, const KernelOptions& options)>;

// Registers the factory of (operation, kind); at namespace scope of a .cc file. Returns as RegisterOperation does.
bool RegisterKernel(const std::string& operation, KernelKind kind, KernelFactory factory);

// Unimplemented, naming operation and kind, where there is no such kernel.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const KernelSpec& spec, const KernelOptions& options);

// A kernel that is a function, for operations that need no preparation.
std::unique_ptr<Kernel> MakeFunctionKernel(std::function<void(const KernelArguments&)> run, int64_t scratch_bytes = 0);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_KERNEL_H_
