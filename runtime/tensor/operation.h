// Operation: what is known of a tensor operation apart from its kernels (kernel.h) and its gradient rule
// (runtime/graph/gradient.h): how the types of its outputs follow from its inputs, and how much it computes.
//
// A new operation registers itself once, at namespace scope of a .cc file:
//
//   const bool registered = RegisterOperation({
//       .name = "add",
//       .infer = [](const OperationTypes& t, const Attributes&) { return std::vector<TensorType>{t[0]}; },
//   });
#ifndef REPRISE_RUNTIME_TENSOR_OPERATION_H_
#define REPRISE_RUNTIME_TENSOR_OPERATION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tensor/attributes.h"
#include "runtime/tensor/types.h"

namespace reprise {

using OperationTypes = std::vector<TensorType>;

struct Operation {
  std::string name;

  // Types of the outputs. Inputs that do not fit are a broken invariant: the check names the operation.
  std::function<std::vector<TensorType>(const OperationTypes& inputs, const Attributes& attributes)> infer;

  // Floating-point operations of products (2 a multiply-add); empty: 0, as for all that is bound by memory.
  std::function<int64_t(const OperationTypes& inputs, const Attributes& attributes)> flops = nullptr;
};

// Registers `operation`. Returns true; false for a plug-in's name that is taken, which refuses the plug-in (elsewhere
// that is a broken invariant). Not thread-safe: at start.
bool RegisterOperation(Operation operation);

// The operation of this name; a broken invariant if there is none. Lives as long as the process.
const Operation& GetOperation(const std::string& name);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_OPERATION_H_
