// What plain kernels share: typed access to the arguments, and registration for every floating-point type.
//
//   struct Add {
//     template <typename T>  // float, BFloat16, double: the element type of the first floating-point tensor
//     static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
//       const T* a = Input<T>(arguments, 0);
//       const T* b = Input<T>(arguments, 1);
//       T* sum = Output<T>(arguments, 0);
//       if (sum == nullptr) return;
//       for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) sum[i] = Rounded<T>(Widened(a[i]) + Widened(b[i]));
//     }
//   };
//   const bool registered = RegisterReference<Add>("add");
#ifndef REPRISE_RUNTIME_TENSOR_ACCESS_H_
#define REPRISE_RUNTIME_TENSOR_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

// What arithmetic on T is done in, and what parameter gradients and statistics of T are kept in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
constexpr Wide<T> Widened(T value) {
  return static_cast<Wide<T>>(value);
}

template <typename T>
constexpr T Rounded(Wide<T> value) {
  return static_cast<T>(value);
}

template <typename T>
const T* Input(const KernelArguments& arguments, int index) {
  return reinterpret_cast<const T*>(arguments.inputs[static_cast<size_t>(index)]);
}

// Null where nobody reads the output.
template <typename T>
T* Output(const KernelArguments& arguments, int index) {
  return reinterpret_cast<T*>(arguments.outputs[static_cast<size_t>(index)]);
}

inline bool Accumulates(const KernelArguments& arguments, int index) {
  return (arguments.accumulate >> index & 1U) != 0;
}

// Assigns the complete result, or adds it to what stands there.
template <typename T>
constexpr void Put(T& place, T value, bool accumulate) {
  place = accumulate ? place + value : value;
}

// The element type that a kernel is compiled for: that of the first floating-point input, else output.
inline DType ComputeType(const KernelSpec& spec) {
  for (const auto* types : {&spec.inputs, &spec.outputs}) {
    for (const TensorType& type : *types) {
      if (type.dtype != DType::kInt32) return type.dtype;
    }
  }
  return DType::kFloat32;
}

template <typename Function>
std::unique_ptr<Kernel> MakeReference(const KernelSpec& spec) {
  switch (ComputeType(spec)) {
    case DType::kBFloat16:
      return MakeFunctionKernel([spec](const KernelArguments& a) { Function::template Run<BFloat16>(spec, a); });
    case DType::kFloat64:
      return MakeFunctionKernel([spec](const KernelArguments& a) { Function::template Run<double>(spec, a); });
    default:
      return MakeFunctionKernel([spec](const KernelArguments& a) { Function::template Run<float>(spec, a); });
  }
}

template <typename Function>
bool RegisterReference(const std::string& operation) {
  return RegisterKernel(operation, KernelKind::kReference,
                        [](const KernelSpec& spec, const KernelOptions&) { return MakeReference<Function>(spec); });
}

// For an operation of one's own: the same plain loop for every kind of kernel.
template <typename Function>
bool RegisterPlainKernels(const std::string& operation) {
  const auto factory = [](const KernelSpec& spec, const KernelOptions&) { return MakeReference<Function>(spec); };
  return RegisterKernel(operation, KernelKind::kReference, factory) &&
         RegisterKernel(operation, KernelKind::kCpu, factory);
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_ACCESS_H_
