#include <memory>

#include "runtime/tensor/access.h"
#include "runtime/tensor/rotary_table.h"

namespace reprise {
namespace {

template <typename T>
void Rotate(const KernelSpec& spec, const RotaryTable& table, const KernelArguments& arguments) {
  const T* x = Input<T>(arguments, 0);
  const int32_t* positions = spec.inputs.size() > 1 ? Input<int32_t>(arguments, 1) : nullptr;
  T* y = Output<T>(arguments, 0);
  if (y == nullptr) return;
  const Wide<T> direction = spec.attributes.Int("inverse") != 0 ? -1 : 1;
  const int64_t heads = spec.attributes.Int("heads");
  for (int64_t row = 0; row < spec.inputs[0].rows(); ++row) {
    const int64_t position = RotaryPosition(positions, row, table.length);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < table.half; ++i) {
        const auto at = static_cast<size_t>(position * table.half + i);
        const Wide<T> cosine = table.cosine[at];
        const Wide<T> sine = direction * table.sine[at];
        const int64_t first = (row * heads + head) * 2 * table.half + i;
        const int64_t second = first + table.half;
        y[first] = Rounded<T>(Widened(x[first]) * cosine - Widened(x[second]) * sine);
        y[second] = Rounded<T>(Widened(x[second]) * cosine + Widened(x[first]) * sine);
      }
    }
  }
}

template <typename T>
std::unique_ptr<Kernel> Make(const KernelSpec& spec) {
  return MakeFunctionKernel([spec, table = SharedRotaryTable(spec)](const KernelArguments& arguments) {
    Rotate<T>(spec, *table, arguments);
  });
}

std::unique_ptr<Kernel> MakeRotary(const KernelSpec& spec, const KernelOptions&) {
  switch (ComputeType(spec)) {
    case DType::kBFloat16:
      return Make<BFloat16>(spec);
    case DType::kFloat64:
      return Make<double>(spec);
    default:
      return Make<float>(spec);
  }
}

[[maybe_unused]] const bool registered = RegisterKernel("rotary", KernelKind::kReference, MakeRotary);

}  // namespace
}  // namespace reprise
