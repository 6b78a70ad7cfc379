// Checks of kernels: run one on plain numbers, compare its gradient with finite differences, compare fast with plain.
//
//   KernelSpec spec = MakeSpec("add", {{DType::kFloat32, {2, 3}}, {DType::kFloat32, {2, 3}}});
//   std::vector<Values> outputs = RunKernel(spec, {a, b});                     // the reference kernel
//   outputs = RunKernel(spec, {a, b}, {.kind = KernelKind::kCpu, .threads = 2});
//   ExpectKernelsAgree(spec, {a, b}, {.relative = 1e-6});
#ifndef REPRISE_TESTS_TOOLS_KERNEL_CHECK_H_
#define REPRISE_TESTS_TOOLS_KERNEL_CHECK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor/kernel.h"

namespace reprise::testing {

// The elements of one tensor, whatever its type: float32, bfloat16 and int32 are exact in double.
using Values = std::vector<double>;

// The kinds of kernels that tests go through. Those of a GPU run on fibers (tools/cuda/fibers.h), which the thread
// sanitizer cannot follow: there they are left out.
#ifdef __SANITIZE_THREAD__
inline constexpr KernelKind kKernelKinds[] = {KernelKind::kReference, KernelKind::kCpu};
#else
inline constexpr KernelKind kKernelKinds[] = {KernelKind::kReference, KernelKind::kCpu, KernelKind::kCuda};
#endif

// A spec whose outputs follow from the operation's rule.
KernelSpec MakeSpec(const std::string& operation, const std::vector<TensorType>& inputs,
                    const Attributes& attributes = {});

// float64 for float64, else float32: the type of parameter gradients and statistics of `dtype`.
DType WideType(DType dtype);

// `value` as it is after storing it in `dtype`.
double Stored(double value, DType dtype);

// Uniform in [low, high), from `seed`; integers below `limit`.
Values RandomValues(int64_t count, uint64_t seed, double low = -1, double high = 1);
Values RandomIntegers(int64_t count, uint64_t seed, int64_t limit);

struct KernelRun {
  KernelKind kind = KernelKind::kReference;
  int threads = 1;
  uint32_t accumulate = 0;
  StepValues step = {};
  int64_t block = 0;
  int64_t first_sequence = 0;
  uint32_t skip = 0;                // bit i: output i is passed as null, and comes back empty
  std::vector<Values> before = {};  // what stands in the outputs before; empty: NaN everywhere
};

// Runs the kernel once. Fails the test where it cannot be made, writes outside its outputs or scratch, or changes an
// input. Outputs that are skipped come back empty.
std::vector<Values> RunKernel(const KernelSpec& spec, const std::vector<Values>& inputs, const KernelRun& run = {});

// True when all elements have the same bits (any NaN equals any NaN).
bool SameBits(const Values& a, const Values& b);

struct Tolerance {
  double relative = 0;  // of the larger of the two magnitudes
  double absolute = 0;
};

// Element by element; NaN equals NaN, an infinity only itself.
void ExpectClose(const Values& actual, const Values& expected, const Tolerance& tolerance, const std::string& what);

// The kCpu kernel, and the kCuda one where there is one, against the reference on the same spec: results within the
// tolerance, equal bits when outputs are null one at a time, repeatable, and with one and two threads each;
// accumulation adds the complete result (to outputs in `accumulated`, as bits). `run.kind`, `run.threads`, `run.skip`
// and `run.accumulate` are set here.
struct AgreeOptions {
  KernelRun run = {};
  uint32_t accumulated = 0;
  bool same_bits_for_all_threads = true;
  bool cuda = true;  // false for shapes that take seconds on fibers: let a smaller one stand beside them
  std::optional<Tolerance> cuda_tolerance = std::nullopt;  // where a kernel of a GPU rounds what others do not
};
void ExpectKernelsAgree(const KernelSpec& spec, const std::vector<Values>& inputs, const Tolerance& tolerance,
                        const AgreeOptions& options = {});

// Gradients of the inputs in `differentiated`, in that order, of sum over outputs and elements of
// output_gradients * outputs; made by running the gradient operation's float64 reference.
using GradientFunction =
    std::function<std::vector<Values>(const std::vector<Values>& inputs,  //
                                      const std::vector<Values>& outputs, const std::vector<Values>& output_gradients)>;

struct FiniteDifferenceOptions {
  std::vector<int> outputs = {0};  // the outputs that carry a gradient; the others' weights are 0
  KernelRun run = {};
  double step = 1e-5;
  double tolerance = 1e-7;  // of 1 + |gradient|
  uint64_t seed = 1;
};

// Central differences of a random linear functional of the outputs of the float64 reference of `forward`.
void ExpectGradientMatchesFiniteDifferences(const KernelSpec& forward, const std::vector<Values>& inputs,
                                            const std::vector<int>& differentiated, const GradientFunction& gradient,
                                            const FiniteDifferenceOptions& options = {});

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_KERNEL_CHECK_H_
