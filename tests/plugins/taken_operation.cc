// A plug-in with an operation whose name is taken.
#include "runtime/model/plugin.h"
#include "runtime/tensor/operation.h"

namespace {

using reprise::Attributes;
using reprise::OperationTypes;

[[maybe_unused]] const bool kRegistered = reprise::RegisterOperation(
    {.name = "add", .infer = [](const OperationTypes& in, const Attributes& /*a*/) { return OperationTypes{in[0]}; }});

}  // namespace

REPRISE_PLUGIN();
